// SPDX-License-Identifier: Apache-2.0
#include "agent/notice_relay.hpp"

#include "agent/core/notices.hpp"

#include <signal.h>

#include <optional>
#include <utility>

namespace muster::agent {

using Clock = std::chrono::steady_clock;

NoticeRelay::NoticeRelay(const boost::asio::any_io_executor& executor, std::function<void(int)> pass_on)
    : pass_on_(std::move(pass_on)), own_(executor, SIGUSR1, SIGUSR2), executor_(executor) {
  watch();
}

void NoticeRelay::watch() {
  own_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    got_at_[signal] = Clock::now();
    watch();
  });
}

void NoticeRelay::launcher_got(int signal) {
  const auto [due, is_new] = due_.try_emplace(signal, executor_);
  if (!is_new) return;
  due->second.expires_after(kEverybodyWithin);
  due->second.async_wait([this, signal](const boost::system::error_code& error) {
    if (!error) decide(signal);
  });
}

void NoticeRelay::decide(int signal) {
  due_.erase(signal);
  const auto got = got_at_.find(signal);
  const auto own = got == got_at_.end() ? std::nullopt : std::optional(got->second);
  if (!everybody_got(own, Clock::now())) pass_on_(signal);
}

void NoticeRelay::cancel() {
  own_.cancel();
  due_.clear();
}

}  // namespace muster::agent
