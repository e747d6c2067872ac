// SPDX-License-Identifier: Apache-2.0
// Gives each user of a store keys of its own.
#pragma once

#include "worker_sdk/store/store_client.hpp"

#include <memory>
#include <string>
#include <vector>

namespace muster {

/// A store that puts a prefix before every key and queue; list_keys() gives the keys below the prefix,
/// without it.
class PrefixStore final : public StoreClient {
 public:
  PrefixStore(std::unique_ptr<StoreClient> store, std::string prefix)
      : owned_(std::move(store)), store_(*owned_), prefix_(std::move(prefix)) {}

  /// `store` must outlive this object.
  PrefixStore(StoreClient& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}

  void set(std::string_view key, std::string_view value) override { store_.set(full(key), value); }

  std::string get(std::string_view key) override { return store_.get(full(key)); }

  std::string get(std::string_view key, WaitLimit limit) override { return store_.get(full(key), limit); }

  std::int64_t add(std::string_view key, std::int64_t delta) override { return store_.add(full(key), delta); }

  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) override {
    return store_.compare_set(full(key), expected, desired);
  }

  bool check(const std::vector<std::string>& keys) override { return store_.check(full(keys)); }

  void wait(const std::vector<std::string>& keys) override { store_.wait(full(keys)); }

  void wait(const std::vector<std::string>& keys, WaitLimit limit) override {
    store_.wait(full(keys), limit);
  }

  bool wait_or_wake(const std::vector<std::string>& keys, int descriptor,
                    std::chrono::milliseconds timeout) override {
    return store_.wait_or_wake(full(keys), descriptor, timeout);
  }

  bool delete_key(std::string_view key) override { return store_.delete_key(full(key)); }

  void append(std::string_view key, std::string_view value) override { store_.append(full(key), value); }

  std::vector<std::string> multi_get(const std::vector<std::string>& keys) override {
    return store_.multi_get(full(keys));
  }

  void multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) override {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& [key, value] : pairs) entries.emplace_back(full(key), value);
    store_.multi_set(entries);
  }

  void queue_push(std::string_view queue, std::string_view value) override {
    store_.queue_push(full(queue), value);
  }

  std::string queue_pop(std::string_view queue, std::chrono::milliseconds timeout) override {
    return store_.queue_pop(full(queue), timeout);
  }

  std::int64_t queue_len(std::string_view queue) override { return store_.queue_len(full(queue)); }

  std::vector<std::string> list_keys() override {
    std::vector<std::string> names;
    for (const std::string& name : store_.list_keys())
      if (name.starts_with(prefix_)) names.push_back(name.substr(prefix_.size()));
    return names;
  }

  std::int64_t num_keys() override { return store_.num_keys(); }

  std::string local_address() const override { return store_.local_address(); }

  void set_timeout(std::chrono::milliseconds timeout) override { store_.set_timeout(timeout); }

  bool is_silent() const override { return store_.is_silent(); }

  std::unique_ptr<StoreClient> clone() override {
    return std::make_unique<PrefixStore>(store_.clone(), prefix_);
  }

  std::unique_ptr<StoreClient> clone_within(std::chrono::milliseconds limit, int descriptor) override {
    return std::make_unique<PrefixStore>(store_.clone_within(limit, descriptor), prefix_);
  }

 private:
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  std::vector<std::string> full(const std::vector<std::string>& keys) const {
    std::vector<std::string> result;
    for (const std::string& key : keys) result.push_back(full(key));
    return result;
  }

  std::unique_ptr<StoreClient> owned_;
  StoreClient& store_;
  std::string prefix_;
};

}  // namespace muster
