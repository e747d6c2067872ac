// SPDX-License-Identifier: Apache-2.0
// Translates the calls of the SDK into those of NCCL.
#pragma once

#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/nccl/library.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace muster::nccl {

/// The place of a rank in its group.
struct Place {
  int rank = 0;
  int size = 1;
};

inline cudaStream_t stream_of(const Operation& operation) {
  return static_cast<cudaStream_t>(operation.stream);
}

/// Throws Error (unsupported) for a call that NCCL does not have.
void check_supported(const Call& call);

/// Puts a call with buffers on the device on its stream; `word` is 4 bytes of device memory for barriers.
/// Call it between ncclGroupStart() and ncclGroupEnd(), because one call may be several sends and receives.
ncclResult_t issue(const Library& api, ncclComm_t comm, const Operation& operation, Place place, void* word);

/// Cuts a batch into NCCL groups: each collective is one, and all sends and receives together are the last,
/// ordered by tag, because NCCL has no tags and matches by order. Collectives are not merged: those of one
/// NCCL group run in any order, and only this rank knows which of its buffers depend on each other, while all
/// ranks must cut alike.
std::vector<std::vector<Operation>> groups_of(std::span<const Operation> batch);

}  // namespace muster::nccl
