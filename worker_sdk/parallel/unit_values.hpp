// SPDX-License-Identifier: Apache-2.0
// The parameters of the form fsdp, which are gathered before they are used, the next ones at the same time.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/shard_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::parallel {

/// Gathers buckets of values over a group of its own, so that its calls and the sums of gradients do not wait
/// for each other. A bucket's place never changes; only buckets that are near each other in the model have
/// separate places. One thread; every rank makes the same calls.
class UnitValues {
 public:
  /// `shards` and `group` outlive this object. `ahead` buckets are gathered while one is used. A collective
  /// call.
  UnitValues(const BucketLayout& layout, const ShardLayout& shards, ProcessGroup& group, std::size_t ahead);

  float* place(std::size_t bucket) const { return memory_ + places_.begins[bucket]; }

  /// A pass begins: values may have changed, and nothing that was gathered before counts.
  void begin_pass();

  /// Waits until the first bucket of `uses` is in its place, where it stays until begin() of another one, and
  /// starts to gather those that the pass uses next, as far as their places are free. `values`: the arena of
  /// shards, as it is now. Returns when the bucket was gathered; nothing if it is the one that was used last.
  std::optional<Work::Interval> begin(const float* values, std::span<const std::size_t> uses);

  /// Gathers one bucket, for use outside of a pass, and none ahead.
  const float* gather(const float* values, std::size_t bucket);

  std::size_t bytes() const { return places_.floats * sizeof(float); }

  std::uint64_t payload() const { return group_->traffic().payload; }

  /// Ends the calls of this rank and of the others.
  void abort(const std::string& reason) { group_->abort(reason); }

 private:
  void start(const float* values, std::size_t bucket);
  std::optional<Work::Interval> wait(std::size_t bucket);
  bool is_free(std::size_t bucket) const;

  const ShardLayout& shards_;
  const std::size_t ahead_;
  std::vector<std::size_t> sizes_;
  Places places_;
  std::unique_ptr<ProcessGroup> group_;
  float* memory_;
  std::vector<std::shared_ptr<Work>> under_way_;  ///< the gathering of each bucket; null: not gathered
  std::optional<std::size_t> used_;               ///< the bucket that is in use
};

}  // namespace muster::parallel
