// SPDX-License-Identifier: Apache-2.0
// Barriers over the store, which work without a backend.
#pragma once

#include "worker_sdk/store/store_client.hpp"
#include "worker_sdk/world/process_identity.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

/// The key under which a rank writes, before it leaves, why it leaves.
inline std::string farewell_key(int rank) {
  return "farewell/" + std::to_string(rank);
}

/// Barriers over a store: they need no backend, and name the missing ranks. One thread at a time.
class NamedBarrier {
 public:
  /// `looks`: whether the store permits waits that end early (PyTorch's does from torch 2.5 on), so that a
  /// wait can look for ranks that are gone.
  NamedBarrier(int rank, std::vector<ProcessIdentity> members, bool looks)
      : rank_(rank), members_(std::move(members)), looks_(looks) {}

  /// Returns when all ranks have called it with `name`, equally often. Throws Error (deadline) that names the
  /// missing ranks, or, when it looks, soon after one of them has left the world (peer_lost, or aborted with
  /// the text at farewell_key()) or its process on this host has ended (peer_lost). Then the rank still
  /// counts as arrived, and the next call with that name goes on waiting.
  void wait(StoreClient& store, const std::string& name, std::chrono::milliseconds limit);

 private:
  struct State {
    std::int64_t times = 0;  ///< number of barriers passed so far
    bool arrived = false;    ///< whether this rank has arrived at the next one
  };

  [[noreturn]] void throw_late(StoreClient& store, const std::string& name, std::chrono::milliseconds limit);
  void wait_for_all(StoreClient& store, const std::string& name, std::chrono::milliseconds limit);
  void look_for_lost(StoreClient& store, const std::string& name);
  std::string key(const std::string& name, std::int64_t time) const;
  void leave(StoreClient& store, const std::string& base) const;

  int rank_;
  std::vector<ProcessIdentity> members_;
  bool looks_;
  std::map<std::string, State> states_;
};

}  // namespace muster
