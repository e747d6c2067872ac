// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/parallel/owned_buckets.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace muster::nn::gpu {

/// Sums over the ranks of what lies on a device. Over a group of NCCL the device sums, and what it does can
/// be recorded, also in 16 bits, with the bits of make_half_hook(). Hooks that only a host can do, and sums
/// over other groups, go through memory of the host, by the code that sums gradients there. One thread; every
/// rank in the same order. `stream` is always the one that calls go onto.
class RankSums {
 public:
  /// `group` is null in a world of one, where nothing changes. `hook` may be null. All outlive it.
  RankSums(ProcessGroup* group, BucketHook* hook, Ops& ops);

  /// Before the first sum_bucket(): `header` is where header and arena of the gradients begin on the device.
  /// A collective call. `layout` and `parameters` outlive this object.
  void prepare(const parallel::BucketLayout& layout, const std::vector<ParameterSpec>& parameters,
               float* header);

  bool is_alone() const { return group_ == nullptr; }

  /// Whether values that lie on a device are summed there.
  bool on_device() const { return on_device_; }

  /// Whether a step can be recorded: what goes through the host waits for the device.
  bool recordable() const { return is_alone() || (on_device_ && !buckets_on_host_); }

  /// A bucket of gradients, with the header before the first one.
  void sum_bucket(std::size_t bucket, void* stream);
  /// Other values, in place.
  void sum(void* data, std::size_t count, DataType type, void* stream);
  /// Waits for all ranks by a sum of 4 bytes.
  void meet(void* stream);

 private:
  void start(Collective collective, std::size_t count, const void* in, void* out, DataType type,
             void* stream);
  void sum_halves(float* gradients, std::size_t count, void* stream);

  ProcessGroup* const group_;
  BucketHook* const hook_;
  Ops& ops_;
  const bool on_device_;
  const bool buckets_on_host_;
  const parallel::BucketLayout* layout_ = nullptr;
  float* header_ = nullptr;
  float* met_;                                   ///< what is summed where ranks meet
  std::vector<char> staged_;                     ///< values on their way through the host
  float* copied_ = nullptr;                      ///< header and gradients on their way through the host
  std::optional<parallel::WholeBuckets> there_;  ///< sums them there
  std::uint16_t* given_ = nullptr;               ///< a bucket in 16 bits
  std::uint16_t* received_ = nullptr;
};

}  // namespace muster::nn::gpu
