// SPDX-License-Identifier: Apache-2.0
// The interface for summing a bucket of gradients over the ranks in another way than by one plain all_reduce.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/parameter.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster {

/// One parameter of a bucket.
struct BucketParameter {
  /// The number of the parameter in the model, and its first element within the bucket.
  std::size_t index = 0;
  std::size_t offset = 0;
  const ParameterSpec* spec = nullptr;
};

/// A contiguous range of the arena that is reduced in one go. Gaps between parameters are zero.
struct BucketView {
  /// The number of the bucket, 0 .. buckets - 1, in the order in which they are reduced.
  std::size_t index = 0;
  std::size_t buckets = 0;
  /// The place of the bucket's first float in the arena, and the number of its floats.
  std::size_t offset = 0;
  std::size_t elements = 0;
  /// This rank's sums over its samples, in whose place the hook leaves the sums over all ranks. Null in
  /// prepare().
  float* gradients = nullptr;
  std::span<const BucketParameter> parameters;
  /// The samples of all ranks in this step. Positive; 0 in prepare().
  std::int64_t samples = 0;
};

/// One tensor of a hook's state, for a checkpoint; it is written to when a checkpoint is read.
struct HookState {
  std::string name;
  std::span<float> values;
  /// Whether every rank has values of its own, so that a checkpoint needs those of each rank; otherwise they
  /// are equal on all ranks.
  bool differs_by_rank = false;
};

/// Sums buckets in its own way. Every rank has the same hook with the same options: describe() is part of the
/// comparison of the ranks at the start. Called by one thread at a time, not always the same one.
class BucketHook {
 public:
  virtual ~BucketHook() = default;

  /// The hook's name and options, in one line without line breaks.
  virtual std::string describe() const = 0;

  /// Prepares the hook; called once, when the reducer is made, by all ranks alike, and may allocate memory
  /// from the group. Default: does nothing.
  virtual void prepare(ProcessGroup&, std::span<const BucketView>) {}

  /// Sums one bucket; called once per step and bucket, in the order of the buckets, with the same calls on
  /// every rank. The hook alone uses the group meanwhile. An exception ends the step, and the group.
  virtual void reduce(ProcessGroup& group, const BucketView& bucket) = 0;

  /// The type of the data on the wire, if the hook does exactly what make_half_hook() describes: gradients in
  /// memory of a device are then rounded and summed there, and reduce() is not called. Empty: they go through
  /// the host.
  virtual std::optional<DataType> wire_type() const { return std::nullopt; }

  /// The tensors that the hook remembers, valid as long as the hook. Empty for a hook without state.
  virtual std::vector<HookState> state() { return {}; }
};

}  // namespace muster
