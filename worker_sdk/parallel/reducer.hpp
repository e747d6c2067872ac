// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of a data-parallel model over the ranks while backward is still running.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/bucket_pipeline.hpp"
#include "worker_sdk/parallel/deterministic.hpp"
#include "worker_sdk/parallel/memory.hpp"
#include "worker_sdk/parallel/parameter.hpp"
#include "worker_sdk/parallel/sharded_buckets.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

/// Owns the gradients of a model in flat buckets and sums them over the ranks of a group.
/// Backward writes each gradient at gradient(i) and then calls gradient_ready(i), in any order. Buckets hold
/// the parameters in reverse order, because backward meets the last layer first, and are reduced strictly in
/// that order: by a thread of the reducer's own, or by the one that is in finish_step(). In a world of one
/// there is no thread, no copy and no lock.
///
/// A step is begin_step(samples of this rank), backward, finish_step(), which returns the samples of all
/// ranks. The gradient of a step is the *sum* over samples and ranks; who applies it divides by that number.
/// So batches may differ between ranks, and a rank may have none (samples 0 and mark_unused() for every
/// parameter).
///
/// Accumulation: any number of times begin_micro_batch(samples), backward, finish_micro_batch() before
/// begin_step() adds gradients and samples of this rank without any call on the group (PyTorch's no_sync()).
/// Ranks may differ in how many they have.
///
/// One thread. Between begin_step() and finish_step() the group belongs to the reducer: no other call on it.
class Reducer {
 public:
  /// Compares the model with that of the other ranks; throws Error (mismatch) that names the first parameter
  /// that differs, with both shapes. `group` may be null for a world of one and must outlive the reducer.
  Reducer(std::vector<ParameterSpec> parameters, ProcessGroup* group, const ReducerOptions& options = {});
  /// Aborts the group in the middle of a step, so that the other ranks do not wait for this one.
  ~Reducer() = default;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// The number of floats in one arena: all parameters, each at offset(i), 64-byte aligned, with zeros in the
  /// gaps. An arena of values or of optimizer state with the same offsets can be worked on in one pass beside
  /// gradients().
  std::size_t elements() const { return layout_.elements; }

  std::size_t offset(std::size_t parameter) const { return layout_.offsets.at(parameter); }

  const std::vector<std::size_t>& offsets() const { return layout_.offsets; }

  /// The arena of all gradients; not to be used if the model is cut into shards.
  float* gradients() const { return header_ + parallel::kHeaderFloats; }

  /// The model's shards, with the values; null if every rank has everything (ReducerOptions::sharding).
  parallel::ShardedBuckets* shards() const { return shards_; }

  /// What of each bucket is this rank's own.
  const parallel::OwnedBuckets& owned() const { return *owned_; }

  const parallel::BucketLayout& layout() const { return layout_; }

  /// The place of a parameter's gradient. With zero2 and fsdp other units use the same place.
  float* gradient(std::size_t parameter) const;

  /// Tells that the next gradients that are written are those of `bucket`, and waits until their place is
  /// free. Needed with zero2 and fsdp.
  void enter(std::size_t bucket) { pipeline_->enter(bucket); }

  /// The number of buckets, in the order in which they are reduced.
  std::size_t buckets() const { return layout_.buckets.size(); }

  /// Copies rank 0's arena of elements() floats to all ranks.
  void broadcast(float* values);

  /// Begins a micro-batch of `samples` samples of this rank, whose gradients are added to those of the step;
  /// see above.
  void begin_micro_batch(std::int64_t samples);
  void finish_micro_batch();

  /// Begins the step with `samples` samples of this rank, beside those of its micro-batches; the sum over the
  /// ranks must stay below 2^24.
  void begin_step(std::int64_t samples);
  /// Tells that gradient(parameter) holds this rank's sum. Throws Error (invalid_argument) if that was told
  /// before in this step or micro-batch.
  void gradient_ready(std::size_t parameter);
  /// Tells that this rank adds nothing to the parameter in this step: its gradient is set to zero and is
  /// ready.
  void mark_unused(std::size_t parameter);
  /// Waits until every bucket is reduced; returns the samples of all ranks. Throws the error of the
  /// collective, or Error (invalid_argument) that names the first parameter that was never ready. Every
  /// collective has the deadline of the group, so the wait ends.
  std::int64_t finish_step();

  /// The samples of all ranks in the last step.
  std::int64_t samples() const { return static_cast<std::int64_t>(header_[0]); }

  /// The number of figures that travel with a step.
  static constexpr std::size_t kTallies = 8;
  /// Sets a figure of this rank (loss, correct answers) that is summed over the ranks in f32 at no cost. Call
  /// it before the first gradient_ready() of a step; 0 if it is not given.
  void set_tally(std::size_t i, float value);

  /// The sum of tally `i` over the ranks in the last step.
  float tally(std::size_t i) const { return i < kTallies ? header_[1 + i] : 0.0F; }

  /// L2 norm over all parameters of the last step's mean gradient, before clipping. Needs
  /// ReducerOptions::max_norm; NaN without it.
  double gradient_norm() const { return pipeline_->gradient_norm(); }

  /// The factor that brings the norm of the mean gradient down to max_norm; 1 without clipping. The formula
  /// is that of PyTorch's clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
  float clip_scale() const { return pipeline_->clip_scale(); }

  /// The tensors that the hook remembers from step to step, for a checkpoint. Empty without a hook, and in a
  /// world of one, where hooks are not called because there are no sums.
  std::vector<HookState> hook_state() const;

  /// Whether a step has failed on this rank, so that the group is dead and no step follows.
  bool has_failed() const { return pipeline_->has_failed(); }

  /// The bytes of gradients of micro-batches that wait for the end of their step.
  std::size_t waiting_bytes() const { return pipeline_->waiting_bytes(); }

  /// The times of the last step.
  const StepTiming& timing() const { return pipeline_->timing(); }

 private:
  enum class Phase : std::uint8_t { idle, micro_batch, step };

  static std::string call(const char* verb, Phase phase);
  void open(std::int64_t samples, Phase phase);
  void require_all_ready(Phase phase) const;

  const std::vector<ParameterSpec> parameters_;
  const ReducerOptions options_;
  const parallel::BucketLayout layout_;
  ProcessGroup* const group_;  ///< null in a world of one
  std::optional<MicroBatches> plan_;
  parallel::HostMemory memory_;
  std::unique_ptr<parallel::OwnedBuckets> owned_;
  parallel::ShardedBuckets* shards_ = nullptr;  ///< the same, where the model is in shards
  float* header_ = nullptr;

  Phase phase_ = Phase::idle;
  std::vector<bool> is_ready_;
  unsigned micro_batches_ = 0;  ///< number of micro-batches before the step
  std::int64_t samples_ = 0;    ///< number of samples of those micro-batches
  std::array<float, kTallies> tallies_ = {};
  std::optional<parallel::BucketPipeline> pipeline_;  ///< the last member, because its thread uses the others
};

}  // namespace muster
