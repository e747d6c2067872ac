// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/call_queue.hpp"

#include "rendezvous/base/quiet_thread.hpp"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// The longest wait; longer ones would overflow the clock.
constexpr auto kLongest = std::chrono::hours(24 * 365);

Error still_running(const std::string& what, milliseconds limit) {
  return Error(ErrorCode::deadline,
               "waited " + std::to_string(limit.count()) + " ms for " + what +
                   ", which is not complete; it goes on, so wait again, or abort the group");
}

class FinishedWork : public Work {
 public:
  bool test() override { return true; }

  void wait(std::optional<milliseconds>) override {}
};

class DeviceWork : public Work {
 public:
  DeviceWork(std::unique_ptr<Completion> completion, std::string what)
      : completion_(std::move(completion)), what_(std::move(what)) {}

  bool test() override { return completion_->test(); }

  void wait(std::optional<milliseconds> limit) override {
    const auto start = Clock::now();
    auto pause = std::chrono::microseconds(1);
    while (!completion_->test()) {
      if (limit && Clock::now() - start >= *limit) throw still_running(what_, *limit);
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(200));
    }
  }

 private:
  std::unique_ptr<Completion> completion_;
  std::string what_;
};

}  // namespace

struct CallQueue::Item : Work {
  bool test() override {
    const std::lock_guard lock(mutex);
    if (done && error) std::rethrow_exception(error);
    return done;
  }

  void wait(std::optional<milliseconds> limit) override {
    std::unique_lock lock(mutex);
    if (!limit) {
      changed.wait(lock, [this] { return done; });
    } else if (!changed.wait_for(lock, std::min<milliseconds>(*limit, kLongest), [this] { return done; })) {
      throw still_running(describe(batch.front().call), *limit);
    }
    if (error) std::rethrow_exception(error);
  }

  std::optional<Interval> interval() override {
    const std::lock_guard lock(mutex);
    return done ? std::optional(time) : std::nullopt;
  }

  void finish(Interval ran, std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex);
      done = true;
      time = ran;
      error = std::move(failure);
    }
    changed.notify_all();
  }

  std::vector<Operation> batch;
  std::vector<std::vector<std::uint64_t>> counts;  ///< the counts that the operations point to
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Interval time;
  std::exception_ptr error;
};

CallQueue::CallQueue(ProcessGroup& group) : group_(group), thread_(quiet_thread([this] { work_off(); })) {}

CallQueue::~CallQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<Work> CallQueue::push(std::vector<Operation> batch) {
  auto item = std::make_shared<Item>();
  item->batch = std::move(batch);
  for (Operation& operation : item->batch) {
    if (operation.counts == nullptr) continue;
    item->counts.emplace_back(operation.counts, operation.counts + group_.size());
    operation.counts = item->counts.back().data();
  }
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(item);
  }
  changed_.notify_all();
  return item;
}

void CallQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return items_.empty() && !finishing_; });
}

bool CallQueue::is_idle() {
  const std::lock_guard lock(mutex_);
  return items_.empty();
}

void CallQueue::work_off() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !items_.empty(); });
    if (items_.empty()) return;
    const std::shared_ptr<Item> item = items_.front();
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    std::exception_ptr error;
    try {
      group_.execute(item->batch);
      group_.completed(item->batch);
    } catch (...) {
      error = std::current_exception();
    }
    const Clock::time_point end = Clock::now();
    // A waiting thread may destroy the group at once, so the call must have left the queue before.
    lock.lock();
    items_.pop_front();
    finishing_ = true;
    lock.unlock();
    item->finish({begin, end}, error);
    lock.lock();
    finishing_ = false;
    changed_.notify_all();
  }
}

std::shared_ptr<Work> make_device_work(std::unique_ptr<Completion> completion, std::string what) {
  return std::make_shared<DeviceWork>(std::move(completion), std::move(what));
}

std::shared_ptr<Work> make_finished_work() {
  return std::make_shared<FinishedWork>();
}

}  // namespace muster
