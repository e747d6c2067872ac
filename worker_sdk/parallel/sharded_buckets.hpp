// SPDX-License-Identifier: Apache-2.0
// The buckets of a model that is cut into shards, in memory of the host.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/bucket_sum.hpp"
#include "worker_sdk/parallel/mesh.hpp"
#include "worker_sdk/parallel/shard_layout.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace muster::parallel {

/// Owns gradients and values. zero1: both are whole, and the sum of a bucket stands in this rank's part of
/// the bucket. zero2: gradients of two neighbouring buckets, and an arena of shards with the sums. fsdp: as
/// zero2, with the values in an arena of shards as well. Where the mesh has replicas (Sharding::ranks), "all
/// ranks" are those of this rank's copy, unless it says the world. One thread at a time; every rank makes the
/// same calls.
class ShardedBuckets final : public BucketSum {
 public:
  /// All arguments outlive this object; `group` is the world. A collective call. Throws Error
  /// (invalid_argument) for options that the form does not have, and for more ranks than there are
  /// parameters.
  ShardedBuckets(const BucketLayout& layout, const std::vector<ParameterSpec>& parameters,
                 const ReducerOptions& options, ProcessGroup& group);

  const ShardLayout& shards() const { return shards_; }

  const Mesh& mesh() const { return mesh_; }

  float* header() const { return header_; }

  /// The place where backward writes the gradients of a bucket. The places of two buckets that are not
  /// neighbours may overlap, except with zero1.
  float* gradients(std::size_t bucket) const { return header_ + kHeaderFloats + places_.begins[bucket]; }

  bool shares_places() const { return form_ != Form::zero1; }

  /// The sums in this rank's part of a bucket.
  const float* sums(std::size_t bucket) const;
  /// The values of this rank's part of a bucket.
  float* values(std::size_t bucket) const;

  /// The values of all parameters; with fsdp those of this rank's shards.
  float* values() const { return values_; }

  bool has_whole_values() const { return form_ != Form::fsdp; }

  /// The bytes of the values, and the bytes of the gradients with the buckets in flight.
  std::size_t value_bytes() const;
  std::size_t gradient_bytes() const;

  /// Sums a bucket over the ranks of the world, and the header together with the first bucket.
  void sum(std::size_t bucket) override;
  /// Sums the squares of the bucket's blocks that belong to this rank and that no border cuts.
  void measure(std::size_t bucket, std::span<double> squares) const;
  /// Gives all ranks the squares of all blocks, after measure() for all buckets.
  void share_squares(std::span<double> squares);
  /// Gives all ranks the values of a bucket, of which each rank has changed its part. Not for fsdp.
  void spread(std::size_t bucket);

 private:
  void clear_gaps(std::size_t bucket);

  const BucketLayout& layout_;
  const std::vector<ParameterSpec>& parameters_;
  const Form form_;
  const Mesh mesh_;
  ProcessGroup& group_;           ///< along the axis of shards
  ProcessGroup* const replicas_;  ///< along that of replicas; null: there is one
  const ShardLayout shards_;
  const NormCuts cuts_;
  Places places_;  ///< places of the buckets' gradients
  float* header_ = nullptr;
  float* sums_ = nullptr;  ///< an arena of shards; null with zero1
  float* values_ = nullptr;
};

}  // namespace muster::parallel
