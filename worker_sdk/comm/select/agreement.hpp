// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of a world exchange texts through the store before there is a group.
#pragma once

#include "worker_sdk/store/store_client.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace muster::select {

/// Collects a text from each rank of a world and gives all texts to each rank.
class Agreement {
 public:
  /// `prefix` stands before the keys and belongs to this world alone. `look`, unless empty, is called from
  /// time to time by a rank that waits, and throws Error if a rank will not come.
  Agreement(StoreClient& store, std::string prefix, int rank, int size, std::chrono::milliseconds timeout,
            std::function<void()> look = {});

  /// Gathers one entry of each rank. Every rank calls it with the same `topic`, each topic once. Throws Error
  /// (deadline) that names the ranks which did not come, or what `look` throws.
  std::vector<std::string> gather(const std::string& topic, const std::string& mine);

 private:
  void wait(const std::vector<std::string>& keys);
  std::string missing(const std::string& topic);

  StoreClient& store_;
  std::string prefix_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::function<void()> look_;
};

}  // namespace muster::select
