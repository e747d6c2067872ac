// SPDX-License-Identifier: Apache-2.0
// Training of a network of one's own on samples of one's own, step by step: what muster/nn.hpp is made of.
#pragma once

#include "worker_sdk/nn/batches/epoch_plan.hpp"
#include "worker_sdk/nn/learner/learner.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace muster::train {

struct SessionOptions {
  /// Its `network` is not null.
  LearnerOptions learner;
  /// Samples of a micro-batch of a rank, at most.
  std::size_t batch_size = 64;
  /// Micro-batches of a rank in a step, at most.
  int accumulation = 1;
};

/// The GPU of a local rank. Throws Error (unsupported) that says what is missing.
std::shared_ptr<nn::gpu::Ops> open_gpu(int local_rank);

/// A batch that is wanted. `steps` were made before.
using FillStep = std::function<void(const WantedBatch& batch, std::int64_t steps)>;

/// Samples of a step, and of an evaluation, have numbers from 0 on over all ranks, each of which is asked for
/// its share (plan_epoch(), plan_evaluation()). Calls are collective but where they say otherwise. Where a
/// call fails behind its checks, the group is aborted and no other call can follow; a file that cannot be
/// written or read is an error on all ranks, behind which others can. One thread.
class Session {
 public:
  /// `fill` is called on the thread that calls. `group` (null: a world of one) and `device` (null: this
  /// machine's processors) outlive it. Throws Error (mismatch) where the ranks have other networks or
  /// options.
  Session(const SessionOptions& options, FillStep fill, ProcessGroup* group, nn::gpu::Ops* device);

  /// One step over `samples` samples of all ranks: 1 to global_batch(). Throws Error (invalid_argument) for
  /// another number, (mismatch) where the ranks do not give the same one.
  StepResult step(std::size_t samples, float learning_rate);
  /// Scores that many samples of all ranks, with the running statistics, and the average of weights where
  /// there is one.
  Score evaluate(std::size_t samples);
  /// Writes what the network gives for `samples` samples at `inputs`, which are floats, or ids, as in
  /// WantedBatch. With this rank's running statistics. Not a collective call.
  void predict(const void* inputs, std::size_t samples, float* results);

  /// Rank 0 writes one safetensors file with the parameters and running statistics of rank 0, under PyTorch's
  /// names. `all`: with what load() needs to go on as if it had never stopped; without, the parameters are
  /// their average where there is one.
  void save(const std::string& path, bool all);
  /// Rank 0 reads such a file, or one with parameters of the same names and shapes, and shares it. Returns
  /// whether it had all.
  bool load(const std::string& path);

  /// Samples of a step of all ranks, at most.
  std::size_t global_batch() const { return shape_.global_batch(); }

  Learner& learner() { return *learner_; }

  /// Whether no other call can follow.
  bool has_failed() const { return !failure_.empty(); }

 private:
  template <typename Body>
  void together(const std::string& what, const Body& body);
  template <typename Body>
  void on_first(const Body& body);
  void fill(const WantedBatch& batch);

  const SessionOptions options_;
  const FillStep fill_;
  ProcessGroup* const group_;
  std::optional<Learner> learner_;
  StepShape shape_;
  const std::byte* given_ = nullptr;  ///< inputs that are to be predicted, those not yet asked for
  std::string failure_;               ///< "" while there was none
};

}  // namespace muster::train
