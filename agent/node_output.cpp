// SPDX-License-Identifier: Apache-2.0
#include "agent/node_output.hpp"

#include "agent/core/link_message.hpp"
#include "agent/process/output/log_sender.hpp"
#include "rendezvous/base/wake_up.hpp"

#include <fcntl.h>

#include <chrono>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using asio::awaitable;

namespace {

/// After the workers have ended, for a grandchild that holds a stream.
constexpr std::chrono::milliseconds kDrainAtMost{1500};
constexpr std::chrono::milliseconds kFlushWhenKilled{50};
/// Once the job is to end, a launcher that takes no output for this long will take none.
constexpr std::chrono::seconds kNoProgress{5};
/// A launcher that lives takes everything when somebody reads what it prints: a pager may be left open.
constexpr std::chrono::hours kFlushAtMost{24 * 365};
constexpr std::chrono::milliseconds kFlushLocal{5000};

}  // namespace

NodeOutput::NodeOutput(const asio::any_io_executor& executor, const AgentSpec& spec,
                       std::function<bool()> is_wanted)
    : executor_(executor),
      spec_(spec),
      is_wanted_(std::move(is_wanted)),
      progress_timer_(executor),
      done_(executor) {}

void NodeOutput::go_over_link(LinkConsole::OpenChannel open) {
  console_ = std::make_shared<LinkConsole>(std::move(open));
  if (spec_.stdin_rank >= 0) input_.emplace(executor_);
}

void NodeOutput::open() {
  OutputNames names;
  names.role = spec_.role;
  names.host = spec_.host;
  StandardStreams streams;
  if (console_)
    streams.remote = [this](int stream, std::shared_ptr<WakeUp> wake_up) {
      return console_->make_sink(std::string(stream == 2 ? kStderrChannel : kStdoutChannel),
                                 [wake_up = std::move(wake_up)] { wake_up->signal(); });
    };
  workers_ = std::make_shared<WorkerOutput>(executor_, spec_.output, std::move(names), spec_.workers,
                                            std::move(streams));
}

int NodeOutput::standard_input(int local_rank, int first_rank) {
  const bool reads = first_rank + local_rank == spec_.stdin_rank;
  if (input_) return reads ? input_->open() : -1;
  if (reads) return -1;
  if (!null_device_) null_device_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return null_device_.get();
}

void NodeOutput::take_input(std::shared_ptr<rendezvous::Channel> channel) {
  if (input_) input_->take_from(std::move(channel));
}

void NodeOutput::started() {
  if (input_) input_->started();
}

awaitable<void> NodeOutput::drain(bool at_once) {
  done_.reset();
  workers_->drain(at_once ? kFlushWhenKilled : kDrainAtMost, [this] { done_.set(); });
  co_await done_.wait();
}

awaitable<void> NodeOutput::finish(bool at_once) {
  if (console_) watch_progress();
  done_.reset();
  const auto limit = at_once    ? kFlushWhenKilled
                     : console_ ? std::chrono::milliseconds(kFlushAtMost)
                                : kFlushLocal;
  workers_->finish(limit, [this] { done_.set(); });
  co_await done_.wait();
  progress_timer_.cancel();
}

awaitable<void> NodeOutput::send_logs() {
  if (!spec_.output.gather_logs || !console_) co_return;
  watch_progress();
  LogSender sender(executor_, *console_);
  std::string folder = spec_.output.log_dir;
  std::string prefix = spec_.node.name;
  co_await sender.send(std::move(folder), std::move(prefix));
  progress_timer_.cancel();
}

void NodeOutput::watch_progress() {
  progress_ = console_->sent();
  progress_timer_.expires_after(kNoProgress);
  progress_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (!is_wanted_() && console_->waiting() > 0 && console_->sent() == progress_) return console_->give_up();
    watch_progress();
  });
}

void NodeOutput::give_up() {
  if (console_) console_->give_up();
}

void NodeOutput::resize() {
  if (workers_) workers_->resize();
}

}  // namespace muster::agent
