// SPDX-License-Identifier: Apache-2.0
#include "agent/end_queue.hpp"

#include "agent/process/worker_end.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace muster::agent {
namespace {

/// A worker that is being killed is waited for so long when another one has failed.
constexpr std::chrono::seconds kKilledAtMost{1};

}  // namespace

EndQueue::EndQueue(const boost::asio::any_io_executor& executor, bool holds_back, Events events)
    : holds_back_(holds_back), events_(std::move(events)), timer_(executor) {}

void EndQueue::add(const WorkerEnd& end) {
  ends_.push_back(end);
  if (!cause_may_follow()) return judge();
  if (ends_.size() > 1) return;  // the time runs from the first
  timer_.expires_after(kKilledAtMost);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) judge();
  });
}

void EndQueue::judge() {
  timer_.cancel();
  const std::vector<WorkerEnd> ends = in_order_of_cause(std::exchange(ends_, {}));
  if (!ends.empty()) events_.judge(ends);
}

bool EndQueue::cause_may_follow() {
  const auto may_follow = [](const WorkerEnd& end) { return may_follow_a_loss(end.status); };
  if (!holds_back_ || !events_.running() || std::none_of(ends_.begin(), ends_.end(), may_follow))
    return false;
  const std::vector<pid_t> living = events_.living();
  // While the worker that was found lives, the others need not be looked at: many may leave together.
  if (std::find(living.begin(), living.end(), being_killed_) != living.end()) return true;
  const auto found = std::find_if(living.begin(), living.end(), is_being_killed);
  being_killed_ = found == living.end() ? -1 : *found;
  return being_killed_ >= 0;
}

}  // namespace muster::agent
