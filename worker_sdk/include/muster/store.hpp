// SPDX-License-Identifier: Apache-2.0
// The key-value store of a job, in C++.
#pragma once

#include "muster/abi/store.h"
#include "muster/check.hpp"

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {
inline namespace v0 {

/// The key-value store that the ranks of a round share. Values are bytes. Waits take a limit, by default that
/// of the world. Throws Error: deadline (names the keys; the store can be used on) or store (it is lost). One
/// thread at a time; clone() for another. The store of a world lives no longer than the World.
class Store {
 public:
  /// Takes over (`owned`) or looks at a store of the C calls.
  Store(muster_store* handle, bool owned) : handle_(handle), owned_(owned ? handle : nullptr) {}

  /// Connects to a store ("muster rendezvous", a PyTorch TCPStore) without joining a job.
  static Store connect(const std::string& host, int port, std::chrono::milliseconds limit = by_default) {
    muster_store* store = nullptr;
    detail::check(muster_store_connect(host.c_str(), port, limit.count(), &store));
    return {store, true};
  }

  /// A second connection, for another thread.
  Store clone() {
    muster_store* copy = nullptr;
    detail::check(muster_store_clone(handle_, &copy));
    return {copy, true};
  }

  muster_store* handle() const { return handle_; }

  void set(const std::string& key, std::string_view value) {
    detail::check(muster_store_set(handle_, key.c_str(), value.data(), value.size()));
  }

  /// Waits until the key exists.
  std::string get(const std::string& key, std::chrono::milliseconds limit = by_default) {
    return value([&](void** value, std::uint64_t* bytes) {
      return muster_store_get(handle_, key.c_str(), limit.count(), value, bytes);
    });
  }

  /// Adds to the decimal number at `key` (missing counts as 0); returns the sum.
  std::int64_t add(const std::string& key, std::int64_t delta) {
    std::int64_t sum = 0;
    detail::check(muster_store_add(handle_, key.c_str(), delta, &sum));
    return sum;
  }

  /// Stores `desired` if the value equals `expected` (empty: also a missing key); returns the value
  /// afterwards.
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) {
    return value([&](void** value, std::uint64_t* bytes) {
      return muster_store_compare_set(handle_, key.c_str(), expected.data(), expected.size(), desired.data(),
                                      desired.size(), value, bytes);
    });
  }

  /// Returns when all keys exist.
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds limit = by_default) {
    const auto names = pointers(keys);
    detail::check(
        muster_store_wait(handle_, names.data(), static_cast<std::uint32_t>(names.size()), limit.count()));
  }

  /// Whether all keys exist.
  bool check(const std::vector<std::string>& keys) {
    const auto names = pointers(keys);
    std::int32_t exist = 0;
    detail::check(
        muster_store_check(handle_, names.data(), static_cast<std::uint32_t>(names.size()), &exist));
    return exist != 0;
  }

  /// Whether the key existed.
  bool remove(const std::string& key) {
    std::int32_t deleted = 0;
    detail::check(muster_store_delete(handle_, key.c_str(), &deleted));
    return deleted != 0;
  }

  void append(const std::string& key, std::string_view value) {
    detail::check(muster_store_append(handle_, key.c_str(), value.data(), value.size()));
  }

  void multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
    std::vector<const char*> keys;
    std::vector<const void*> values;
    std::vector<std::uint64_t> bytes;
    for (const auto& [key, value] : pairs) {
      keys.push_back(key.c_str());
      values.push_back(value.data());
      bytes.push_back(value.size());
    }
    detail::check(muster_store_multi_set(handle_, keys.data(), values.data(), bytes.data(),
                                         static_cast<std::uint32_t>(keys.size())));
  }

  /// Waits until all keys exist, and returns their values.
  std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                     std::chrono::milliseconds limit = by_default) {
    const auto names = pointers(keys);
    std::vector<void*> values(keys.size());
    std::vector<std::uint64_t> bytes(keys.size());
    detail::check(muster_store_multi_get(handle_, names.data(), static_cast<std::uint32_t>(names.size()),
                                         limit.count(), values.data(), bytes.data()));
    std::vector<Memory> owned;
    owned.reserve(values.size());
    for (void* const value : values) owned.emplace_back(value);
    std::vector<std::string> result;
    for (std::size_t i = 0; i < values.size(); ++i) result.push_back(text(owned[i], bytes[i]));
    return result;
  }

  void queue_push(const std::string& queue, std::string_view value) {
    detail::check(muster_store_queue_push(handle_, queue.c_str(), value.data(), value.size()));
  }

  /// Takes the first value of the queue, and waits until there is one.
  std::string queue_pop(const std::string& queue, std::chrono::milliseconds limit = by_default) {
    return value([&](void** value, std::uint64_t* bytes) {
      return muster_store_queue_pop(handle_, queue.c_str(), limit.count(), value, bytes);
    });
  }

  std::uint64_t queue_length(const std::string& queue) {
    std::uint64_t length = 0;
    detail::check(muster_store_queue_length(handle_, queue.c_str(), &length));
    return length;
  }

  /// All keys that begin with `prefix`, sorted.
  std::vector<std::string> list(const std::string& prefix = "") {
    char* keys = nullptr;
    std::uint64_t count = 0;
    detail::check(muster_store_list(handle_, prefix.c_str(), &keys, &count));
    const Memory owned(keys);
    std::vector<std::string> names;
    for (std::uint64_t i = 0; i < count; ++i) {
      names.emplace_back(keys);
      keys += names.back().size() + 1;
    }
    return names;
  }

 private:
  struct Free {
    void operator()(void* memory) const { muster_free(memory); }
  };

  using Memory = std::unique_ptr<void, Free>;

  static std::string text(const Memory& memory, std::uint64_t bytes) {
    return {static_cast<const char*>(memory.get()), bytes};
  }

  template <class Call>
  static std::string value(Call&& call) {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    detail::check(call(&memory, &bytes));
    return text(Memory(memory), bytes);
  }

  static std::vector<const char*> pointers(const std::vector<std::string>& keys) {
    std::vector<const char*> names;
    names.reserve(keys.size());
    for (const std::string& key : keys) names.push_back(key.c_str());
    return names;
  }

  muster_store* handle_;
  detail::Owned<muster_store, muster_store_free> owned_;
};

}  // namespace v0
}  // namespace muster
