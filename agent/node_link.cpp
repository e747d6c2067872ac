// SPDX-License-Identifier: Apache-2.0
#include "agent/node_link.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using asio::awaitable;
using Kind = LinkMessage::Kind;

namespace {

/// To a launcher on this host.
constexpr std::chrono::seconds kReportLocalAtMost{10};

}  // namespace

NodeLink::NodeLink(const asio::any_io_executor& executor, const NodeAgentOptions& options, Events events)
    : executor_(executor),
      options_(options),
      events_(std::move(events)),
      traits_(options.node.spec),
      watch_(executor, options.node.spec.host, needs_of_watch()),
      report_settled_(executor) {}

LauncherWatch::Needs NodeLink::needs_of_watch() {
  LauncherWatch::Needs needs;
  needs.link_works = [this] { return works(); };
  needs.coordinator = events_.coordinator;
  needs.coordinator_works = events_.coordinator_works;
  needs.lives = [this] { say_go_on(); };
  needs.gone = [this](const std::string& why) { lose_launcher(why); };
  return needs;
}

void NodeLink::open() {
  LauncherLink::Events events;
  events.message = [this](LinkMessage message) {
    watch_.heard();
    events_.message(std::move(message));
  };
  events.closed = [this](const std::string& reason) { closed(reason); };
  events.opened = [this](std::string_view what, std::shared_ptr<rendezvous::Channel> channel) {
    if (what == kStdinChannel) events_.stdin_opened(std::move(channel));
  };
  // Waiting for another way would change nothing: the same launcher is at its end.
  events.broken = [this](const std::string& what) {
    lose_launcher("the link to the launcher was given up: " + what);
  };
  link_.emplace(
      executor_, rendezvous::make_descriptor_stream(executor_, options_.node.link_in, options_.node.link_out),
      traits_.distant_launcher ? LauncherLink::Mode::agent : LauncherLink::Mode::plain, std::move(events));
  if (!traits_.distant_launcher) return;
  // Lines of our own go the same way, so that they come from where they are about. Helper threads log, too.
  set_log_handler([this, executor = executor_](LogLevel, std::string_view text) {
    asio::post(executor, [this, line = std::string(text)]() mutable {
      if (!over_) tell(Kind::log, 0, std::move(line));
    });
  });
  watch_.watch_for_silence();
}

void NodeLink::tell(Kind kind, std::int64_t number, std::string body) {
  link_->send({kind, number, std::move(body)});
}

bool NodeLink::go_on_over(std::shared_ptr<rendezvous::Channel> channel) {
  if (!link_ || !traits_.distant_launcher) return false;
  // Before the old way ends, or the guardian would take that for the end of the launcher.
  say_go_on();
  link_->move_to(rendezvous::make_channel_stream(executor_, std::move(channel)));
  log_info("the launcher's link goes through the coordinator now");
  return true;
}

void NodeLink::guardian_ended() {
  if (traits_.distant_launcher) link_->drop("the guardian is gone");
}

void NodeLink::closed(const std::string& reason) {
  if (over_) return;
  if (!traits_.distant_launcher)
    return lose_launcher("the launcher" + traits_.on_host + " is gone (" + reason + ")");
  // An SSH session lasts as long as somebody holds its streams, and the launcher looks for another way to us
  // only when it has ended.
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null) ::dup2(null.get(), STDERR_FILENO);
  watch_.search();
}

/// The guardian sees the end of the first link only.
void NodeLink::say_go_on() const {
  if (options_.go_on_fd >= 0) (void)!::write(options_.go_on_fd, "g", 1);
}

void NodeLink::lose_launcher(const std::string& why) {
  if (over_) return;
  watch_.give_up();
  report_settled_.set();
  events_.launcher_gone(why);
}

/// A report that is lost would leave the launcher with a guess: it waits for a link that is just being moved,
/// or will be when the launcher finds out that it is dead.
awaitable<bool> NodeLink::send_report(const NodeReport& report) {
  const LinkMessage message{Kind::report, 0, to_json_within(report, kLinkReportMax)};
  link_->send(message, [this] { report_settled_.set(); });
  if (watch_.is_gone()) co_return false;
  const bool settled = co_await report_settled_.wait_for(traits_.distant_launcher ? rendezvous::kReportAtMost
                                                                                  : kReportLocalAtMost);
  co_return settled && !watch_.is_gone();
}

void NodeLink::end() {
  over_ = true;
  watch_.cancel();
}

void NodeLink::close() {
  set_log_handler(nullptr);
  link_->close();
}

}  // namespace muster::agent
