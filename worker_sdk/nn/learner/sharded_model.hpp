// SPDX-License-Identifier: Apache-2.0
// A model in shards, on a host: where its network finds parameters and leaves gradients, and how whole
// tensors come out of it.
#pragma once

#include "worker_sdk/nn/learner/step_profile.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/parallel/reducer.hpp"
#include "worker_sdk/parallel/unit_values.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster::train {

/// A wait of the network for one of its units.
struct UnitWait {
  std::chrono::steady_clock::time_point asked;  ///< when the network came to the unit
  /// When its parameters were there, and in backward the place for its gradients was free.
  std::chrono::steady_clock::time_point there;
  std::optional<Work::Interval> gathered;  ///< when the parameters were gathered
};

/// When a micro-batch went through the network.
struct PassTimes {
  std::chrono::steady_clock::time_point begun;
  std::chrono::steady_clock::time_point turned;  ///< from forward to backward
  std::chrono::steady_clock::time_point ended;
};

/// Moves the waits of a step from forward and backward, in which they lie, to what they were for: the
/// optimizer's work on earlier buckets, where buckets are stepped one by one, late ranks, and else
/// communication that nothing hid. Adds what was gathered to all communication. Pure.
void account_waits(std::span<const UnitWait> waits, std::span<const PassTimes> passes,
                   const StepTiming& timing, bool steps_buckets, StepTimes& times);

/// One thread.
class ShardedModel final : public nn::UnitUser {
 public:
  /// `reducer`, whose shards() there are, and `network` outlive it; it becomes the network's user. `ahead`:
  /// units that fsdp gathers while another one is used. A collective call.
  ShardedModel(Reducer& reducer, nn::Network& network, std::size_t ahead);

  const parallel::Mesh& mesh() const { return shards_.mesh(); }

  const parallel::ShardLayout& layout() const { return shards_.own(); }

  /// Where forward() reads and backward() writes.
  std::vector<nn::ParameterSlot> slots() const;

  /// Whether values() are those of all parameters; otherwise of this rank's shards.
  bool has_whole_values() const { return shards_.has_whole_values(); }

  float* values() const { return shards_.values(); }

  float* values(std::size_t bucket) const { return shards_.values(bucket); }

  /// Sets values() to the first ones of the model, where they are in shards. Needs memory for a bucket more.
  void initialize(const nn::ModelSpec& spec, std::uint64_t seed);
  /// The values of a bucket, of all ranks, up to the next call. Outside of a step; a collective call.
  const float* gather(std::size_t bucket);
  /// Gives all ranks the values of which each has changed its shards, where they are whole. As gather().
  void spread();
  /// Gives the other copies of the model the first one's values, and calls spread(). As gather().
  void share_values();
  /// Gives the other copies what this rank has in an arena of shards. As gather().
  void share(std::span<float> shards);

  /// Gathers the parts of a bucket that ranks have in arenas of shards, to its whole values on rank 0 of the
  /// world (elsewhere null). A collective call outside of a step.
  void collect(std::size_t bucket, const float* shards, float* whole);

  std::size_t value_bytes() const;

  std::size_t gradient_bytes() const { return shards_.gradient_bytes(); }

  /// Of calls that are none of the world's.
  std::uint64_t payload() const { return mesh().payload() + (units_ ? units_->payload() : 0); }

  /// The waits in training since the last call, in their order.
  std::vector<UnitWait> take_waits() { return std::exchange(waits_, {}); }

  /// The other ranks do not wait for this one any more. Any thread.
  void abort(const std::string& reason);

  /// Waits for the gathering that is under way, or ends it: the values may go. Nothing is called after it.
  void close() { units_.reset(); }

  void begin_pass(bool trains) override;
  void begin_unit(std::size_t unit, bool backward) override;

  bool takes_values_away() const override { return !has_whole_values(); }

 private:
  std::optional<Work::Interval> gather_in_pass(std::size_t bucket);
  std::string units_of(std::size_t bucket) const;

  Reducer& reducer_;
  parallel::ShardedBuckets& shards_;
  std::vector<std::size_t> bucket_of_;  ///< of each unit
  std::vector<std::string> unit_names_;
  std::vector<UnitWait> waits_;
  std::optional<parallel::UnitValues> units_;  ///< fsdp
  std::vector<std::size_t> train_uses_;        ///< buckets, in the order of a pass
  std::vector<std::size_t> test_uses_;
  bool trains_ = false;                 ///< the pass
  std::span<const std::size_t> uses_;   ///< those that are left of the pass
  std::optional<std::size_t> entered_;  ///< the bucket whose gradients are being written
};

}  // namespace muster::train
