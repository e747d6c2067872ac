// SPDX-License-Identifier: Apache-2.0
#include "agent/guardian_watch.hpp"

#include "agent/process/guardian.hpp"
#include "rendezvous/log/log.hpp"
#include "worker_sdk/status/process_state.hpp"

#include <unistd.h>

#include <chrono>
#include <utility>

namespace muster::agent {
namespace {

constexpr std::chrono::milliseconds kLookInterval{500};

}  // namespace

GuardianWatch::GuardianWatch(const boost::asio::any_io_executor& executor, int pidfd, std::string of_node)
    : guardian_(executor, pidfd), timer_(executor), pid_(::getppid()), of_node_(std::move(of_node)) {}

void GuardianWatch::start(std::function<void()> gone) {
  guardian_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [gone = std::move(gone)](const boost::system::error_code& error) {
                         if (!error) gone();
                       });
  look();
}

void GuardianWatch::cancel() {
  guardian_.cancel();
  timer_.cancel();
}

void GuardianWatch::let_go_on() {
  continue_guardian(guardian_.native_handle());
}

void GuardianWatch::look() {
  timer_.expires_after(kLookInterval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || ::getppid() != pid_) return;
    const bool stopped = status::look_at(pid_).state == status::ProcessState::stopped;
    const std::string who = "the guardian process" + of_node_;
    if (stopped && !stopped_)
      log_warning(who + " is stopped by a signal or a debugger; the job goes on, and 'kill -CONT " +
                  std::to_string(pid_) + "' lets the guardian go on; so does the end of the job");
    else if (stopped_ && !stopped)
      log_warning(who + " goes on");
    stopped_ = stopped;
    look();
  });
}

}  // namespace muster::agent
