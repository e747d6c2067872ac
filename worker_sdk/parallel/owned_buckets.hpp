// SPDX-License-Identifier: Apache-2.0
// How the buckets of a step are summed over the ranks in memory of the host, and what of each sum is this
// rank's to step.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/shard_layout.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster::parallel {

/// The buckets of one model: all of each is this rank's own where every rank has everything (WholeBuckets), a
/// part of it where the model is in shards (ShardedBuckets). One thread at a time; every rank makes the same
/// calls in the order of the buckets. Throws the errors of the group.
class OwnedBuckets {
 public:
  virtual ~OwnedBuckets() = default;
  OwnedBuckets(const OwnedBuckets&) = delete;
  OwnedBuckets& operator=(const OwnedBuckets&) = delete;

  const ShardLayout& own() const { return own_; }

  /// The place where header and gradients begin.
  virtual float* header() const = 0;
  /// The place where backward writes the gradients of a bucket.
  virtual float* gradients(std::size_t bucket) const = 0;

  /// The sums of this rank's own part of a bucket, after sum().
  virtual const float* sums(std::size_t bucket) const {
    return gradients(bucket) + (own_.whole[bucket].begin - layout_.buckets[bucket].offset);
  }

  /// Whether the gradients of two buckets that are not neighbours may have the same place.
  virtual bool shares_places() const { return false; }

  /// Sums a bucket over the ranks, and the header together with the first one.
  virtual void sum(std::size_t bucket) = 0;
  /// Sums the squares of the bucket's blocks that are this rank's own and that no border cuts; of others they
  /// are 0.
  void measure(std::size_t bucket, std::span<double> squares) const;

  /// Completes the squares of all blocks, after measure() for all buckets.
  virtual void share_squares(std::span<double> /*squares*/) {}

  /// Gives all ranks the values of a bucket, of which each has stepped its own part.
  virtual void spread(std::size_t /*bucket*/) {}

  /// Ends the calls of the other ranks that are none of the world's. Any thread.
  virtual void abort(const std::string& /*reason*/) const {}

 protected:
  /// `layout` outlives this object.
  OwnedBuckets(const BucketLayout& layout, ShardLayout own) : layout_(layout), own_(std::move(own)) {}

  const BucketLayout& layout_;
  const ShardLayout own_;
};

/// Sums whole buckets by a hook, or else by one all_reduce.
class WholeBuckets final : public OwnedBuckets {
 public:
  /// `header` is where header and arena begin. All arguments outlive this object; `hook` may be null, and so
  /// may `group`, in a world of one, where nothing is summed. A collective call that throws the errors of the
  /// hook, as sum() does.
  WholeBuckets(const BucketLayout& layout, const std::vector<ParameterSpec>& parameters, BucketHook* hook,
               float* header, ProcessGroup* group);

  float* header() const override { return header_; }

  float* gradients(std::size_t bucket) const override {
    return header_ + kHeaderFloats + layout_.buckets[bucket].offset;
  }

  void sum(std::size_t bucket) override;

 private:
  std::vector<std::vector<BucketParameter>> parameters_;
  std::vector<BucketView> views_;
  BucketHook* const hook_;
  float* const header_;
  ProcessGroup* const group_;
};

}  // namespace muster::parallel
