// SPDX-License-Identifier: Apache-2.0
// The buckets of a model that is cut into shards, in memory of the host.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/mesh.hpp"
#include "worker_sdk/parallel/owned_buckets.hpp"
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
class ShardedBuckets final : public OwnedBuckets {
 public:
  /// All arguments outlive this object; `group` is the world. A collective call. Throws Error
  /// (invalid_argument) for options that the form does not have, and for more ranks than there are
  /// parameters.
  ShardedBuckets(const BucketLayout& layout, const std::vector<ParameterSpec>& parameters,
                 const ReducerOptions& options, ProcessGroup& group);

  const Mesh& mesh() const { return mesh_; }

  float* header() const override { return header_; }

  float* gradients(std::size_t bucket) const override {
    return header_ + kHeaderFloats + places_.begins[bucket];
  }

  bool shares_places() const override { return form_ != Form::zero1; }

  const float* sums(std::size_t bucket) const override;
  /// The values of this rank's part of a bucket.
  float* values(std::size_t bucket) const;

  /// The values of all parameters; with fsdp those of this rank's shards.
  float* values() const { return values_; }

  bool has_whole_values() const { return form_ != Form::fsdp; }

  /// The bytes of the values, and the bytes of the gradients with the buckets in flight.
  std::size_t value_bytes() const;
  std::size_t gradient_bytes() const;

  void sum(std::size_t bucket) override;
  void share_squares(std::span<double> squares) override;
  /// With fsdp there is nothing to give.
  void spread(std::size_t bucket) override;

  void abort(const std::string& reason) const override { mesh_.abort(reason); }

 private:
  void clear_gaps(std::size_t bucket);

  const std::vector<ParameterSpec>& parameters_;
  const Form form_;
  const Mesh mesh_;
  ProcessGroup& group_;           ///< along the axis of shards
  ProcessGroup* const replicas_;  ///< along that of replicas; null: there is one
  const NormCuts cuts_;
  Places places_;  ///< places of the buckets' gradients
  float* header_ = nullptr;
  float* sums_ = nullptr;  ///< an arena of shards; null with zero1
  float* values_ = nullptr;
};

}  // namespace muster::parallel
