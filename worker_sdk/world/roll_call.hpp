// SPDX-License-Identifier: Apache-2.0
// How the ranks of a world find that they are complete, each there once, and of one opinion about their
// number.
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
  /// The beginning of all keys, the same on all ranks: job and round.
  std::string prefix;
  std::chrono::steady_clock::time_point deadline;
  /// The time limit, for messages.
  std::chrono::milliseconds limit{0};
  std::string run_id = "none";
};

/// The result of a roll call, on which all ranks agree.
struct Roll {
  /// The beginning of this world's keys: a job may make several worlds over one store, one after another or
  /// at once.
  std::string prefix;
  /// The processes, one a rank.
  std::vector<ProcessIdentity> members;
};

/// Waits until all ranks are there. Throws Error on every rank concerned: deadline names the ranks that did
/// not come, invalid_argument two processes with one rank, mismatch two opinions about the number of ranks.
Roll call_roll(StoreClient& store, const ProcessIdentity& self, const RollCallOptions& options);

/// Frees the rank, so that a later process of the job may have it. Throws Error when the store is gone.
void leave_roll(StoreClient& store, const Roll& roll, int rank);

/// Throws Error (peer_lost) when a rank has left the world or has died beside `rank`, the caller: on all
/// ranks with the text of whoever found it first, that it was before `what`.
void require_all_present(StoreClient& store, const Roll& roll, int rank, const std::string& what);

/// Whether all ranks of the world have left. False for an attempt that never became a world.
bool all_have_left(StoreClient& store, const Roll& roll);

/// "rank 1 (process 12 on host a), rank 3".
std::string list_ranks(const std::vector<int>& ranks, const std::vector<ProcessIdentity>& members);

}  // namespace muster
