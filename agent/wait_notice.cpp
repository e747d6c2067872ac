// SPDX-License-Identifier: Apache-2.0
#include "agent/wait_notice.hpp"

#include "rendezvous/log/log.hpp"

#include <chrono>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFirst{2};
constexpr std::chrono::seconds kLook{10};
constexpr std::chrono::seconds kAgain{120};

}  // namespace

void WaitNotice::update(const std::string& text) {
  text_ = text;
  if (runs_) return;
  runs_ = true;
  watch(kFirst);
}

void WaitNotice::watch(std::chrono::milliseconds delay) {
  timer_.expires_after(delay);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    const auto now = Clock::now();
    if (text_ != said_ || now - said_at_ >= kAgain) {
      log_warning(text_);
      said_ = text_;
      said_at_ = now;
    }
    watch(kLook);
  });
}

void WaitNotice::end() {
  runs_ = false;
  said_.clear();
  timer_.cancel();
}

}  // namespace muster::agent
