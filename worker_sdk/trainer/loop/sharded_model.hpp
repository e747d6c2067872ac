// SPDX-License-Identifier: Apache-2.0
// A model in shards, on a host: where its network finds parameters and leaves gradients, and how whole
// tensors come out of it.
#pragma once

#include "worker_sdk/parallel/reducer.hpp"
#include "worker_sdk/parallel/unit_values.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::train {

/// One thread.
class ShardedModel final : public nn::UnitUser {
 public:
  /// `reducer`, whose shards() there are, `network` and `group` outlive it; it becomes the network's user.
  /// `ahead`: units that fsdp gathers while another one is used. A collective call.
  ShardedModel(Reducer& reducer, nn::Network& network, ProcessGroup& group, std::size_t ahead);

  const parallel::ShardLayout& layout() const { return shards_.shards(); }

  /// Where forward() reads and backward() writes.
  std::vector<nn::ParameterSlot> slots() const;

  /// Whether values() are those of all parameters; otherwise of this rank's shards.
  bool has_whole_values() const { return shards_.has_whole_values(); }

  float* values() const { return shards_.values(); }

  float* values(std::size_t bucket) const { return shards_.values(bucket); }

  const float* sums(std::size_t bucket) const { return shards_.sums(bucket); }

  /// Sets values() to the first ones of the model, where they are in shards. Needs memory for a bucket more.
  void initialize(const nn::ModelSpec& spec, std::uint64_t seed);
  /// The values of a bucket, of all ranks, up to the next call. Outside of a step; a collective call.
  const float* gather(std::size_t bucket);
  /// Gives all ranks the values of which each has changed its shards, where they are whole. As gather().
  void spread();

  /// Gathers the parts of a bucket that ranks have in arenas of shards, to its whole values on rank 0
  /// (elsewhere null). A collective call outside of a step.
  void collect(std::size_t bucket, const float* shards, float* whole);

  std::size_t value_bytes() const;

  std::size_t gradient_bytes() const { return shards_.gradient_bytes(); }

  /// Of calls that are none of the group's.
  std::uint64_t payload() const { return units_ ? units_->payload() : 0; }

  /// The other ranks do not wait for this one any more.
  void abort(const std::string& reason);

  void begin_unit(std::size_t unit, bool backward) override;
  void end_unit(std::size_t unit, bool backward) override;

  bool takes_values_away() const override { return !has_whole_values(); }

 private:
  Reducer& reducer_;
  parallel::ShardedBuckets& shards_;
  ProcessGroup& group_;
  std::vector<std::size_t> bucket_of_;         ///< of each unit
  std::optional<parallel::UnitValues> units_;  ///< fsdp
  std::optional<std::size_t> used_;            ///< the bucket whose parameters are in use
};

}  // namespace muster::train
