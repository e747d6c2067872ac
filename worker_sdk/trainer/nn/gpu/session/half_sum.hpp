// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/trainer/nn/gpu/ops.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::gpu {

/// Sums buckets over the ranks on a device, in 16 bits, with the bits of make_half_hook(). A recorded step
/// may do so. One thread.
class HalfSum {
 public:
  /// `wire`: bf16 or f16. `group`, one of devices, and `ops` outlive it; memory for a bucket and its parts is
  /// taken here.
  HalfSum(const parallel::BucketLayout& layout, DataType wire, ProcessGroup& group, Ops& ops);

  /// Sums the header and the gradients of a bucket of `count` floats. `header`, whose first number is the
  /// samples, stands before the first bucket and is summed with it. `stream` is where the calls go.
  void sum(std::size_t bucket, float* header, float* gradients, std::size_t count, void* stream);

 private:
  void start(Collective collective, std::size_t count, const void* in, void* out, DataType type,
             void* stream);

  const DataType wire_;
  ProcessGroup& group_;
  Ops& ops_;
  std::uint16_t* given_;
  std::uint16_t* received_;
};

}  // namespace muster::nn::gpu
