// SPDX-License-Identifier: Apache-2.0
// The part of NodeSession that speaks with the launcher, and knows when there is none any more.
#include "agent/core/link_text.hpp"
#include "agent/node_session.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;
using Kind = LinkMessage::Kind;

namespace {

/// A launcher that the coordinator has not seen for this long is gone.
constexpr std::chrono::seconds kLauncherGoneAfter{3};
constexpr std::chrono::seconds kLauncherAnswer{2};
constexpr std::chrono::milliseconds kAskSoon{20};
constexpr std::chrono::milliseconds kAskAgain{200};
constexpr std::chrono::seconds kAskWhileCut{1};
constexpr std::chrono::seconds kLookForSilence{2};
/// Longest wait until a launcher on this host has the report.
constexpr std::chrono::seconds kReportLocalAtMost{10};
/// Once the job is to end, a launcher that takes no output for this long will take none.
constexpr std::chrono::seconds kNoProgress{5};
/// A launcher that lives takes all output as soon as somebody reads what it prints, so there is practically
/// no limit: a pager may be left open.
constexpr std::chrono::hours kFlushAtMost{24 * 365};
constexpr std::chrono::milliseconds kFlushLocal{5000};
constexpr std::chrono::milliseconds kFlushWhenKilled{50};

std::string errno_text() {
  return std::generic_category().message(errno);
}

}  // namespace

void NodeSession::open_link() {
  LauncherLink::Events events;
  events.message = [this](LinkMessage message) { on_message(std::move(message)); };
  events.closed = [this](const std::string& reason) { on_link_closed(reason); };
  events.opened = [this](std::string_view what, std::shared_ptr<rendezvous::Channel> channel) {
    if (what == kStdinChannel && input_) input_->take_from(std::move(channel));
  };
  // Another connection would change nothing, since the same launcher is at its end.
  events.broken = [this](const std::string& what) {
    if (!reported()) launcher_gone("the link to the launcher was given up: " + what);
  };
  const auto mode = started() ? LauncherLink::Mode::agent : LauncherLink::Mode::plain;
  link_.emplace(executor_,
                rendezvous::make_descriptor_stream(executor_, options_.node.link_in, options_.node.link_out),
                mode, std::move(events));
  if (!started()) return;
  link_console_ =
      std::make_shared<LinkConsole>([this](std::string_view what) { return link_->open_channel(what); });
  // Our own log lines go over the link, too, so that they come from the node that they are about. They are
  // posted, because helper threads log as well.
  set_log_handler([this, executor = executor_](LogLevel, std::string_view text) {
    asio::post(executor, [this, line = std::string(text)]() mutable {
      if (!reported()) tell(Kind::log, 0, std::move(line));
    });
  });
  asio::co_spawn(executor_, watch_for_silence(), [](const std::exception_ptr&) {
    // Watching ends with the session.
  });
  if (spec_.stdin_rank >= 0) input_.emplace(executor_);
}

void NodeSession::tell(Kind kind, std::int64_t number, std::string body) {
  link_->send({kind, number, std::move(body)});
}

void NodeSession::on_message(LinkMessage message) {
  heard_at_ = Clock::now();
  switch (message.kind) {
    case Kind::coordinator: {
      const LinkEndpoint endpoint = link_endpoint_from_json(message.body);
      spec_.node.coordinator_host = endpoint.host;
      spec_.node.coordinator_port = endpoint.port;
      coordinator_known_.set();
      break;
    }
    case Kind::stop:
      stop(static_cast<int>(message.number));
      break;
    case Kind::kill:
      life_.kill();
      stop(SIGTERM);
      if (runner_) runner_->kill();
      break;
    case Kind::resize:
      if (output_) output_->resize();
      if (runner_) runner_->resize();
      break;
    case Kind::signal:
      notices_.launcher_got(static_cast<int>(message.number));
      break;
    default:
      break;
  }
}

void NodeSession::on_link_closed(const std::string& reason) {
  if (reported()) return;
  if (!started())
    return launcher_gone("the launcher" + (alone() ? "" : " on " + spec_.host) + " is gone (" + reason + ")");
  // An SSH session lasts as long as somebody holds its streams, so stderr is let go: the launcher looks for
  // another way to this node only when the session has ended.
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null) ::dup2(null.get(), STDERR_FILENO);
  if (launcher_ != Launcher::linked) return;
  launcher_ = Launcher::sought;
  asio::co_spawn(executor_, ask_for_launcher(), [](const std::exception_ptr&) {
    // Asking ends with an answer, or with the session.
  });
}

/// Tells the guardian that the launcher lives: the guardian sees the end of the first link only.
void NodeSession::say_go_on() const {
  if (options_.go_on_fd >= 0) (void)!::write(options_.go_on_fd, "g", 1);
}

void NodeSession::launcher_gone(const std::string& why) {
  launcher_ = Launcher::gone;
  report_settled_.set();
  if (link_console_) link_console_->give_up();
  if (!reported()) fail(why);
}

/// Asks the coordinator whether the launcher lives: the link was cut either by the launcher's end or by the
/// network.
awaitable<void> NodeSession::ask_for_launcher() {
  auto last_alive = Clock::now();
  // When a launcher is killed, the end of this link may come before the end of its connection to the
  // coordinator. So the first questions follow each other soon.
  std::chrono::milliseconds ask_next = kAskSoon;
  while (!link_->connected() && !reported()) {
    if (!coordinator_) break;
    bool alive = false;
    try {
      const auto deadline = Clock::now() + kLauncherAnswer;
      const rendezvous::LauncherState state = co_await coordinator_->launcher_state(deadline);
      if (!state.known) break;  // the launcher's orders came by this link only
      alive = state.connected;
      if (state.ended || (!alive && state.gone >= kLauncherGoneAfter)) break;
    } catch (const std::exception&) {
      // The loss of the coordinator is an event of its own.
    }
    const auto now = Clock::now();
    if (alive) {
      say_go_on();
      last_alive = now;
    } else if (now - last_alive >= kLauncherGoneAfter) {
      break;
    }
    lifeline_timer_.expires_after(alive ? ask_next : kAskAgain);
    if (alive) ask_next = std::min<std::chrono::milliseconds>(2 * ask_next, kAskWhileCut);
    boost::system::error_code ignored;
    co_await lifeline_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  if (launcher_ == Launcher::sought) launcher_ = Launcher::linked;
  if (!link_->connected() && !reported())
    launcher_gone("the launcher is gone: its connection to " + spec_.host +
                  " ended, and the coordinator does not know it any more");
}

/// Finds out that the launcher is gone though its link still looks alive, in every phase up to the report.
awaitable<void> NodeSession::watch_for_silence() {
  while (!reported() && launcher_ != Launcher::gone) {
    silence_timer_.expires_after(kLookForSilence);
    boost::system::error_code error;
    co_await silence_timer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (error || reported()) co_return;
    if (launcher_ == Launcher::sought || Clock::now() - heard_at_ < kLauncherSilentAtMost) continue;
    const bool alive = co_await coordinator_hears_launcher();
    if (reported() || alive || launcher_ == Launcher::gone) continue;
    launcher_gone("the launcher is gone: " + spec_.host + " has heard nothing of it for " +
                  std::to_string(kLauncherSilentAtMost.count()) + " s, and neither has the coordinator");
  }
}

/// Asks the coordinator whether it hears the launcher, since perhaps only the link is cut. Without a
/// coordinator, or with one that has never heard of the launcher, the silence of the link decides.
awaitable<bool> NodeSession::coordinator_hears_launcher() {
  if (!coordinator_ || !life_.connected() || coordinator_lost_) co_return false;
  try {
    const auto deadline = Clock::now() + kLauncherAnswer;
    const rendezvous::LauncherState state = co_await coordinator_->launcher_state(deadline);
    co_return state.known && (state.connected || state.gone < kLauncherSilentAtMost);
  } catch (const std::exception&) {
    // A coordinator that does not answer may only be busy; if it is lost, its own silence tells.
    co_return !coordinator_lost_;
  }
}

void NodeSession::watch_signals() {
  end_signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    told_to_stop(signal);
    watch_signals();
  });
}

/// Returns the stdin of a worker: with --stdin one rank reads the launcher's. -1 stands for what a worker
/// gets without that option.
int NodeSession::standard_input(int local_rank) {
  const bool reads = place_.first_rank + local_rank == spec_.stdin_rank;
  if (input_) return reads ? input_->open() : -1;
  if (reads || !alone()) return -1;
  if (!null_device_) null_device_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return null_device_.get();
}

/// Waits until everything that workers printed is where it belongs, as long as somebody takes it.
awaitable<void> NodeSession::finish_output() {
  if (link_console_) watch_progress();
  done_.reset();
  const auto limit = life_.killed()  ? kFlushWhenKilled
                     : link_console_ ? std::chrono::milliseconds(kFlushAtMost)
                                     : kFlushLocal;
  output_->finish(limit, [this] { done_.set(); });
  co_await done_.wait();
  progress_timer_.cancel();
}

void NodeSession::watch_progress() {
  progress_ = link_console_->sent();
  progress_timer_.expires_after(kNoProgress);
  progress_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const bool wanted = link_->connected() && life_.goes_on();
    if (!wanted && link_console_->waiting() > 0 && link_console_->sent() == progress_)
      return link_console_->give_up();
    watch_progress();
  });
}

/// Sends the node's log files to the launcher, one after the other.
awaitable<void> NodeSession::gather_logs() {
  namespace fs = std::filesystem;
  const fs::path folder = spec_.output.log_dir;
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->is_regular_file(error) && !entry->is_symlink(error)) files.push_back(entry->path());
  watch_progress();
  for (const fs::path& file : files) {
    if (link_console_->given_up()) break;
    std::string path = file.string();
    std::string name = spec_.node.name + "/" + fs::relative(file, folder, error).string();
    co_await gather_file(std::move(path), std::move(name));
    // Small files fit into the channel's window without a wait, so many of them would let nothing else run.
    co_await asio::post(executor_, asio::use_awaitable);
  }
  progress_timer_.cancel();
}

awaitable<void> NodeSession::gather_file(std::string path, std::string name) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    log_warning("the log file " + path + " is not sent: it cannot be opened (" + errno_text() + ")");
    co_return;
  }
  const auto sink = link_console_->make_sink(std::string(kFileChannel) + name, [this] { room_.set(); });
  std::string buffer(kLinkPieceBytes, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      log_warning("the log file " + path + " is sent in part only: it cannot be read (" + errno_text() +
                  "); the whole one stays there");
    if (got <= 0) break;
    sink->append(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)));
    while (sink->full()) {
      room_.reset();
      co_await room_.wait();
    }
    // A note of the sink says that the launcher takes no more.
    if (link_console_->given_up() || !sink->notes().empty()) co_return;
  }
  sink->stop();
}

/// Sends the report and waits until the launcher has it; without a report the launcher could only guess. The
/// wait covers a link that is just being moved, or will be when the launcher finds out that the link is dead.
awaitable<void> NodeSession::send_report(const NodeReport& report) {
  const LinkMessage message{Kind::report, 0, to_json_within(report, kLinkReportMax)};
  link_->send(message, [this] { report_settled_.set(); });
  if (launcher_ == Launcher::gone) co_return;
  const bool settled =
      co_await report_settled_.wait_for(started() ? rendezvous::kReportAtMost : kReportLocalAtMost);
  report_taken_ = settled && launcher_ != Launcher::gone;
}

}  // namespace muster::agent
