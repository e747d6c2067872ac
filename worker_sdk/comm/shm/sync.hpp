// SPDX-License-Identifier: Apache-2.0
// Every atomic of the shared-memory group, and nothing else: so each ordering can be read here, and
// tests/unit/worker_sdk/comm/mutations removes each once to see whether the tests notice. Acquire and release
// are on the very word that is waited for, without fences, because ThreadSanitizer does not understand
// fences.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace muster::shm {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared memory needs lock-free atomics");

/// The progress of one rank: a step counter with one owner, and in the same word a mark that the owner has
/// left. Counts wrap after 2^31 steps; two ranks of a group are never more than two steps apart.
class Progress {
 public:
  /// Tells that the owner has reached `step`; only the owner calls it. A rank that sees the step reached sees
  /// everything the owner wrote before. A plain store: the owner goes on at once, while its cache line is
  /// still on the way.
  void post(std::uint32_t step) { word_.store(step << 1, std::memory_order_release); }

  /// Tells that there will be no further step; only the owner calls it.
  void leave() { word_.store(word_.load(std::memory_order_relaxed) | kLeft, std::memory_order_relaxed); }

  bool reached(std::uint32_t step) const { return is_past(word_.load(std::memory_order_acquire), step); }

  bool left_before(std::uint32_t step) const {
    const std::uint32_t word = word_.load(std::memory_order_relaxed);
    return (word & kLeft) != 0 && !is_past(word, step);
  }

  bool has_left() const { return (word_.load(std::memory_order_relaxed) & kLeft) != 0; }

  /// Whether it is worth sleeping until `step`. False: check again with reached() and left_before(). True:
  /// `seen` is the value to sleep on.
  bool may_sleep(std::uint32_t step, std::uint32_t& seen) const {
    seen = word_.load(std::memory_order_relaxed);
    return !is_past(seen, step) && (seen & kLeft) == 0;
  }

  /// The word for the futex calls.
  const std::atomic<std::uint32_t>* word() const { return &word_; }

 private:
  static constexpr std::uint32_t kLeft = 1;

  static bool is_past(std::uint32_t word, std::uint32_t step) {
    return static_cast<std::int32_t>((word & ~kLeft) - (step << 1)) >= 0;
  }

  std::atomic<std::uint32_t> word_{0};
};

/// Counts the ranks that sleep on a rank's words. That rank makes the system call that wakes them only when
/// there are any. It checks after its store, which may still be under way: it can overlook a sleeper, so no
/// sleep is long.
class Sleepers {
 public:
  void enter() { count_.fetch_add(1, std::memory_order_relaxed); }

  void leave() { count_.fetch_sub(1, std::memory_order_relaxed); }

  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<std::uint32_t> count_{0};
};

/// A count with one owner, which only rises: the filled or the emptied part of a ring.
class Count {
 public:
  /// Sets the count; only the owner calls it. A rank that sees the count sees everything the owner wrote (or
  /// has read) before as done.
  void post(std::uint32_t value) { value_.store(value, std::memory_order_release); }

  std::uint32_t seen() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint32_t> value_{0};
};

/// A word on which a rank sleeps that waits for any of several messages. It carries no data: a missed change
/// costs one short sleep.
class Doorbell {
 public:
  void ring() { rings_.fetch_add(1, std::memory_order_relaxed); }

  std::uint32_t rings() const { return rings_.load(std::memory_order_relaxed); }

  /// The word for the futex calls.
  const std::atomic<std::uint32_t>* word() const { return &rings_; }

 private:
  std::atomic<std::uint32_t> rings_{0};
};

/// A number that is used only in texts for people.
class Note {
 public:
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }

  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// The first failure of a group, seen by all ranks. Once set it stays.
class FailureRecord {
 public:
  /// Sets the failure; any thread of any rank calls it. Returns whether this failure is the first one, which
  /// stays.
  bool publish(std::uint32_t code, std::string_view text) {
    std::uint32_t expected = kNone;
    if (!state_.compare_exchange_strong(expected, kBeingWritten, std::memory_order_relaxed)) return false;
    code_ = code;
    length_ = static_cast<std::uint32_t>(std::min(text.size(), sizeof(text_)));
    std::memcpy(text_, text.data(), length_);
    state_.store(kSet, std::memory_order_release);
    return true;
  }

  bool is_set() const { return state_.load(std::memory_order_acquire) == kSet; }

  /// The code of the failure. Call it, and text(), only after is_set().
  std::uint32_t code() const { return code_; }

  std::string text() const { return std::string(text_, std::min<std::size_t>(length_, sizeof(text_))); }

 private:
  enum : std::uint32_t { kNone, kBeingWritten, kSet };

  std::atomic<std::uint32_t> state_{kNone};
  std::uint32_t code_ = 0;
  std::uint32_t length_ = 0;
  char text_[2036] = {};
};

/// The process of a rank, written once when it joins.
class Identity {
 public:
  void set(std::int32_t pid, std::uint64_t start_time, std::uint64_t pid_namespace) {
    pid_ = pid;
    start_time_ = start_time;
    pid_namespace_ = pid_namespace;
    joined_.store(1, std::memory_order_release);
  }

  bool has_joined() const { return joined_.load(std::memory_order_acquire) != 0; }

  /// The process id. Call it, and the two below, only after has_joined().
  std::int32_t pid() const { return pid_; }

  std::uint64_t start_time() const { return start_time_; }

  std::uint64_t pid_namespace() const { return pid_namespace_; }

 private:
  std::atomic<std::uint32_t> joined_{0};
  std::int32_t pid_ = 0;
  std::uint64_t start_time_ = 0;
  std::uint64_t pid_namespace_ = 0;
};

}  // namespace muster::shm
