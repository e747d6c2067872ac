// SPDX-License-Identifier: Apache-2.0
// Keeps who waits for which keys. Every operation costs no more than the keys it names: a waiter's places in
// the lists are linked nodes of its own, so cancelling one of 10,000 waiters on a key does not walk over the
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster::rendezvous {

/// A hash by which a table with std::string keys can be searched with a string_view.
struct TextHash {
  using is_transparent = void;

  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

class WaitList;

/// A party that can wait once at a time. The store's owner must cancel its wait before it is destroyed.
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  virtual ~Waiter() = default;

  bool waiting() const { return missing_ > 0; }

  /// Tells that the wait has ended because all keys exist. Called from inside a change of the store, so it
  /// must not call the store.
  virtual void wait_over() = 0;

 private:
  friend class WaitList;

  struct Place;

  struct List {
    Place* first = nullptr;
    Place* last = nullptr;
  };

  struct Place {
    Waiter* waiter = nullptr;
    Place* previous = nullptr;
    Place* next = nullptr;
    std::pair<const std::string, List>* entry = nullptr;  // null: no longer in a list
  };

  std::unique_ptr<Place[]> places_;
  std::size_t used_ = 0;
  std::size_t missing_ = 0;
  std::size_t bytes_ = 0;
};

class WaitList {
 public:
  /// Prepares `waiter`, which must not be waiting, for up to `capacity` keys.
  void begin(Waiter& waiter, std::size_t capacity);
  /// Adds a key that must exist before the wait is over.
  void add(Waiter& waiter, std::string_view key);
  /// Ends a wait without telling the waiter. Does nothing if the waiter does not wait.
  void cancel(Waiter& waiter);

  /// Tells that `key` was created or changed: counts down for every waiter on it.
  void wake_all(std::string_view key) {
    if (!lists_.empty()) wake_all_slowly(key);
  }

  /// Counts down for the waiter on `key` that has waited longest.
  void wake_one(std::string_view key);

  /// The keys that a waiter still misses, at most `most`; valid until the next change of the list.
  static std::vector<std::string_view> awaited(const Waiter& waiter, std::size_t most);

  std::size_t bytes() const { return bytes_; }

  static std::size_t cost(std::string_view key);

 private:
  using Lists = TextMap<Waiter::List>;

  void wake_all_slowly(std::string_view key);
  void take_out(Waiter::Place& place);
  void count_down(Waiter& waiter);
  void release(Waiter& waiter);

  Lists lists_;
  std::size_t bytes_ = 0;
};

}  // namespace muster::rendezvous
