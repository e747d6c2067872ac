// SPDX-License-Identifier: Apache-2.0
// What every backend must do: one suite of known answers, instantiated once for each backend.
//
// Instantiate it in one of three ways. Ranks that are processes, joined through a store of ours (the usual):
//
//   TEST_CASE("gloo keeps the contract") {
//     contract::Options options;
//     contract::check_in_processes(
//         [](StoreClient& store, int rank, int size, const ProcessGroupOptions& group) { return make(...); },
//         options);
//   }
//
// Ranks that are threads (for ThreadSanitizer): check_in_threads(). Ranks that exist already (started by
// mpirun, or by `muster run` on GPUs): each calls run_cases(group, options) and prints what it returns; ""
// means that all was right.
//
// The groups need a factory (split() and new_group() are part of the contract). Device backends give
// Options::make_memory, so that the buffers lie where the backend wants them.
#pragma once

#include "tests/contract/memory.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::contract {

struct Options {
  /// Fewer sizes, and each combination of type and operation in one world only: for slow transports.
  bool quick = false;
  /// Reductions go in rank order, so that floating-point results are known bit for bit. All backends must
  /// give the same bits on all ranks and in every run.
  bool rank_order = false;
  /// Buffers may lie at any address; false for backends that want elements aligned to their size.
  bool any_address = true;
  /// A send or receive that differs is found (else only collectives are compared).
  bool checks_messages = true;
  /// A call that differs between ranks may return before that is found; a later call then fails.
  bool finds_late = false;
  /// In how many seconds all ranks usually know that their calls differ (promise.py), where that is not found
  /// late.
  double usual_mismatch_seconds = 0.05;
  /// Numbers of ranks for check_in_*().
  std::vector<int> worlds = {2, 3, 4, 8};
  /// Cases whose name holds this text only.
  std::string only;
  /// Which reductions are tested; null: all that are defined.
  std::function<bool(DataType, ReduceOp)> supports;
  /// What allocate() gives, which is of the kind of make_memory's.
  MemoryKind allocates = MemoryKind::host;
  /// Called once a rank.
  std::function<std::unique_ptr<Memory>()> make_memory = [] { return std::make_unique<HostMemory>(); };
};

/// Runs every case on this rank; all ranks of the group call it alike. "" or what was wrong.
std::string run_cases(ProcessGroup& group, const Options& options);

using MakeGroup = std::function<std::unique_ptr<ProcessGroup>(StoreClient& store, int rank, int size,
                                                              const ProcessGroupOptions& options)>;
using MakeGroups =
    std::function<std::vector<std::unique_ptr<ProcessGroup>>(int size, const ProcessGroupOptions& options)>;

/// Every case in every world, with Catch2's checks. The calling process has no threads.
void check_in_processes(const MakeGroup& make, const Options& options);
void check_in_threads(const MakeGroups& make, const Options& options);

}  // namespace muster::contract
