// SPDX-License-Identifier: Apache-2.0
// The key-value store of one round: plain keys, queues, waits and barriers with the semantics of PyTorch's
// libuv TCPStore. Pure: no sockets, no clock, no logging. One thread at a time.
#pragma once

#include "rendezvous/core/wait_list.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::rendezvous {

enum class StoreStatus {
  ok,
  full,          ///< the memory cap would be passed; nothing was changed
  not_a_number,  ///< ADD or BARRIER on a value that does not begin with a decimal number; nothing was changed
};

class Store {
 public:
  /// `max_bytes`: the cap on the bytes of keys, values, queue items and waits together (limits.hpp).
  explicit Store(std::size_t max_bytes = kMaxStoreBytes) : max_bytes_(max_bytes) {}

  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // A write takes its value as a view (copied into memory that is reused where possible) or as a string
  // (moved in).
  [[nodiscard]] StoreStatus set(std::string_view key, std::string_view value);
  [[nodiscard]] StoreStatus set(std::string_view key, std::string&& value);
  [[nodiscard]] StoreStatus append(std::string_view key, std::string_view value);

  /// The value of a plain key; null if it is missing. Valid until the next change of the store.
  const std::string* find(std::string_view key) const;

  struct Compared {
    StoreStatus status = StoreStatus::ok;
    std::string_view current;  ///< the value to tell the caller; valid until the next change of the store, or
                               ///< as long as the arguments
  };

  /// A missing key counts as equal to an empty `expected`. A missing key with another `expected` is told
  /// `expected` and stays missing (PyTorch's rule). Wakes those that wait on the key if it exists afterwards.
  [[nodiscard]] Compared compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired);

  struct Sum {
    StoreStatus status = StoreStatus::ok;
    std::int64_t value = 0;
  };

  /// Adds `delta` to the number in the value. A missing key counts as 0; leading digits are enough ("12abc" +
  /// 1 = 13). Wraps around like PyTorch's int64.
  [[nodiscard]] Sum add(std::string_view key, std::int64_t delta);

  /// Removes a plain key. True if the key existed.
  bool erase(std::string_view key);
  /// Whether `key` is a plain key or a queue that is not empty.
  bool present(std::string_view key) const;

  /// The number of plain keys, whatever their prefix.
  std::size_t size() const { return values_.size(); }

  /// The bytes of all plain keys' names.
  std::size_t key_bytes() const { return key_bytes_; }

  template <typename Function>
  void for_each_key(Function&& function, std::size_t most = std::string::npos) const {
    for (auto entry = values_.begin(); entry != values_.end() && most > 0; ++entry, --most)
      function(std::string_view(entry->first));
  }

  // Queues live beside the plain keys, under names of their own.
  [[nodiscard]] StoreStatus queue_push(std::string_view key, std::string&& value);
  /// Takes the oldest item; nullopt if the queue is empty. `length_before` counts the item that is taken.
  std::optional<std::string> queue_pop(std::string_view key, std::size_t& length_before);
  std::size_t queue_length(std::string_view key) const;

  /// Begins a wait of `waiter` (which must not wait already) until every key exists; each missing key counts
  /// down once, when it is next created or updated. `waiter.waiting()` is false afterwards if no key is
  /// missing.
  [[nodiscard]] StoreStatus wait(Waiter& waiter, std::span<const std::string_view> keys);
  /// Counts one arrival; once there are `world_size`, all that wait on the key go on, and `waiter.waiting()`
  /// is false. The count is never reset.
  [[nodiscard]] StoreStatus barrier(Waiter& waiter, std::string_view key, std::int64_t world_size);

  void cancel_wait(Waiter& waiter) { waits_.cancel(waiter); }

  /// The keys for which a waiter still waits, at most `most`; valid until the next change of the store.
  static std::vector<std::string_view> awaited(const Waiter& waiter, std::size_t most) {
    return WaitList::awaited(waiter, most);
  }

  /// Forgets all keys and queues. No waiter may be waiting.
  void clear();

  /// The bytes charged against the cap.
  std::size_t memory() const { return bytes_ + waits_.bytes(); }

  std::size_t max_memory() const { return max_bytes_; }

 private:
  // Whether `bytes` more fit under the cap when `freed` are given back.
  bool room_for(std::size_t bytes, std::size_t freed = 0) const {
    return bytes <= max_bytes_ && memory() - freed <= max_bytes_ - bytes;
  }

  std::string* find_value(std::string_view key);
  StoreStatus create(std::string_view key, std::string&& value);
  bool replace(std::string& stored, std::string_view value);
  StoreStatus put_number(std::string_view key, std::string* stored, std::int64_t number);

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::size_t key_bytes_ = 0;
  TextMap<std::string> values_;
  TextMap<std::deque<std::string>> queues_;
  WaitList waits_;
};

}  // namespace muster::rendezvous
