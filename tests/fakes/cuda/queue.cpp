// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda/internal.hpp"

#include <cstdlib>
#include <utility>

namespace fake {

Delay::Delay(int number, std::uint64_t turn) {
  const char* const text = std::getenv("FAKE_CUDA_SEED");
  if (text == nullptr) return;
  const auto seed = static_cast<std::uint64_t>(std::atoll(text));
  delays_ = (seed + static_cast<std::uint64_t>(number)) % 2 == 0;
  random_ = seed + (turn << 16);
}

/// One task in four waits up to a millisecond.
void Delay::operator()() {
  if (!delays_) return;
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;
  if ((random_ >> 62) == 0) std::this_thread::sleep_for(std::chrono::microseconds((random_ >> 33) % 1000));
}

// The thread is not joined: a stream whose kernel never ends does not keep the program from ending.
std::shared_ptr<Queue> Queue::make(int number) {
  auto queue = std::make_shared<Queue>(number);
  std::thread([queue] { queue->serve(); }).detach();
  return queue;
}

void Queue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !works_.empty(); });
    if (works_.empty()) return;
    Work work = std::move(works_.front());
    works_.pop_front();
    working_ = true;
    lock.unlock();
    delay_();
    work();
    work = nullptr;  // what it holds goes before anybody hears that it is done
    lock.lock();
    working_ = false;
    changed_.notify_all();
  }
}

void Queue::push(Work work) {
  {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void Queue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return works_.empty() && !working_; });
}

bool Queue::is_idle() {
  const std::lock_guard lock(mutex_);
  return works_.empty() && !working_;
}

void Queue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

void Mark::reach() {
  {
    const std::lock_guard lock(mutex_);
    reached_ = true;
    time_ = std::chrono::steady_clock::now();
  }
  changed_.notify_all();
}

void Mark::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

bool Mark::is_reached() {
  const std::lock_guard lock(mutex_);
  return reached_;
}

std::chrono::steady_clock::time_point Mark::time() {
  const std::lock_guard lock(mutex_);
  return time_;
}

}  // namespace fake
