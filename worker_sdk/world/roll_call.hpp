// SPDX-License-Identifier: Apache-2.0
// Makes sure that all ranks of a world are present, each once, and that they agree on their number.
#pragma once

#include "worker_sdk/store/store_client.hpp"
#include "worker_sdk/world/process_identity.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace muster {

struct RollCallOptions {
  int rank = 0;
  int size = 1;
  /// The beginning of all keys, the same on all ranks; it names job and round.
  std::string prefix;
  std::chrono::steady_clock::time_point deadline;
  /// The time limit, for messages.
  std::chrono::milliseconds limit{0};
  std::string run_id = "none";
};

/// The result of a roll call, on which all ranks agree.
struct Roll {
  /// The beginning of this world's keys, because a job may make several worlds over one store, one after
  /// another or at once.
  std::string prefix;
  /// The process of each rank.
  std::vector<ProcessIdentity> members;
};

/// Waits until all ranks are present. Throws Error on every rank concerned: deadline names the ranks that did
/// not come, invalid_argument two processes with the same rank, mismatch two ranks that expect different
/// numbers of ranks.
Roll call_roll(StoreClient& store, const ProcessIdentity& self, const RollCallOptions& options);

/// Frees the rank's place, so that a later process of the job may have it. Throws Error when the store is
/// gone.
void leave_roll(StoreClient& store, const Roll& roll, int rank);

/// Throws Error (peer_lost) when a rank has left the world or has died on the host of `rank`, the caller. All
/// ranks throw the text of the rank that found it first, which says that it happened before `what`.
void require_all_present(StoreClient& store, const Roll& roll, int rank, const std::string& what);

/// Whether all ranks of the world have left. False for an attempt that never became a world.
bool all_have_left(StoreClient& store, const Roll& roll);

/// The ranks for people: "rank 1 (process 12 on host a), rank 3".
std::string list_ranks(const std::vector<int>& ranks, const std::vector<ProcessIdentity>& members);

}  // namespace muster
