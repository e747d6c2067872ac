// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/store/store_client.hpp"

#include <memory>
#include <string>
#include <vector>

namespace muster {

/// A store that puts a prefix before every key and queue; list_keys() gives the keys below it, without it.
class PrefixStore final : public StoreClient {
 public:
  PrefixStore(std::unique_ptr<StoreClient> store, std::string prefix)
      : owned_(std::move(store)), store_(*owned_), prefix_(std::move(prefix)) {}

  /// `store` must outlive it.
  PrefixStore(StoreClient& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}

  const std::string& prefix() const { return prefix_; }

  void set(std::string_view key, std::string_view value) override;
  std::string get(std::string_view key) override;
  std::string get(std::string_view key, std::chrono::milliseconds timeout) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) override;
  bool check(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override;
  bool wait_or_wake(const std::vector<std::string>& keys, int descriptor,
                    std::chrono::milliseconds timeout) override;
  bool delete_key(std::string_view key) override;
  void append(std::string_view key, std::string_view value) override;
  std::vector<std::string> multi_get(const std::vector<std::string>& keys) override;
  void multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) override;
  void queue_push(std::string_view queue, std::string_view value) override;
  std::string queue_pop(std::string_view queue, std::chrono::milliseconds timeout) override;
  std::int64_t queue_len(std::string_view queue) override;
  std::vector<std::string> list_keys() override;
  std::int64_t num_keys() override;

  std::string local_address() const override { return store_.local_address(); }

  void set_timeout(std::chrono::milliseconds timeout) override { store_.set_timeout(timeout); }

  bool is_silent() const override { return store_.is_silent(); }

  std::unique_ptr<StoreClient> clone() override;

 private:
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

  std::vector<std::string> full(const std::vector<std::string>& keys) const;

  std::unique_ptr<StoreClient> owned_;
  StoreClient& store_;
  std::string prefix_;
};

}  // namespace muster
