// SPDX-License-Identifier: Apache-2.0
// One rank's copy of a model and everything that changes it; what of it leaves the process.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/nn/batches/samples.hpp"
#include "worker_sdk/nn/data/batch_loader.hpp"
#include "worker_sdk/nn/description.hpp"
#include "worker_sdk/nn/learner/loss_scale.hpp"
#include "worker_sdk/nn/learner/model_tensors.hpp"
#include "worker_sdk/nn/learner/step_profile.hpp"
#include "worker_sdk/nn/learner/trace.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/nn/network.hpp"
#include "worker_sdk/nn/optim/optimizer.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/deterministic.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster::nn::gpu {
class Ops;
}

namespace muster::train {

struct LearnerOptions {
  std::string model = "small-cnn";
  /// A network of one's own in the place of `model`; null: the built-in one.
  std::shared_ptr<const nn::Description> network;
  nn::Precision precision = nn::Precision::f32;
  optim::OptimizerOptions optimizer;
  /// Decay of the moving average of weights that is evaluated and exported in their place; 0: no average.
  double ema_decay = 0;
  /// Share of each target that is spread evenly over all classes (Szegedy et al., "Rethinking the Inception
  /// Architecture", 2016); 0: none.
  double label_smoothing = 0;
  /// Activations that are computed again in backward, and so need no memory.
  nn::ActivationCheckpoints activation_checkpoints;
  /// Batch norm over the batch of all ranks.
  bool sync_batch_norm = false;
  /// Replicas of the network in this process, which share every batch (nn::DataParallel); 1: the network
  /// alone. More only in a world of one, on processors.
  int replicas = 1;
  /// What people are told to do about a loss that is no longer a number.
  std::string if_diverged = "try a smaller learning rate, or clip the norm of gradients (max_norm 1)";
  /// Devices: whether steps are recorded and replayed, which takes the host less time and has the same bits.
  bool record_steps = true;
  /// Seed of the first parameters, and of dropout.
  std::uint64_t seed = 0;
  /// Options of the reducer, also for clipping (max_norm), compression (hook) and the deterministic world.
  /// The learner sets `own_step` itself.
  ReducerOptions reducer;
};

/// Whether kernels may keep copies of weights in their own layout: not where weights are there for a moment.
inline bool keeps_weight_copies(const LearnerOptions& options, int ranks) {
  return options.reducer.sharding.form_in(ranks) != Form::fsdp;
}

/// Describes the work of a learner.
struct LearnerTask {
  LearnerOptions options;
  /// Options of prefetching, normalization and augmentation of training images.
  data::LoaderOptions loader;
  /// Samples of a micro-batch of this rank, at most.
  std::size_t batch_size = 64;
  /// Number of micro-batches of a step, at most.
  int accumulation = 1;
};

/// Reasons for which a rank would like all ranks to stop; they learn of them with the step's gradients.
struct Votes {
  bool time_is_up = false;
  bool told_to_stop = false;  ///< a signal: preemption

  bool any() const { return time_is_up || told_to_stop; }
};

/// Describes the next step.
struct StepRequest {
  int micro_batches = 1;  ///< micro-batches of this rank
  float learning_rate = 0;
  /// Samples of all ranks in the step: ranks record steps of equal size together.
  std::size_t samples = 0;
  Votes votes;
};

/// One step, summed over all ranks and alike on all of them; `times` are this rank's.
struct StepResult {
  double loss = 0;
  double correct = 0;
  std::int64_t samples = 0;
  Votes votes;
  StepTimes times;
  std::uint64_t payload = 0;  ///< bytes that this rank had to send (Traffic::payload)
  bool skipped = false;       ///< a gradient was too large for fp16, and parameters are as before
  double loss_scale = 0;      ///< that of the step (LossScale); 0: the loss is not scaled
};

struct Score {
  std::int64_t samples = 0;
  double mean_loss = 0;
  double accuracy = 0;  ///< 0 to 1
};

/// The mean of sums over samples; 0 where there are none.
Score mean_score(double loss, double correct, std::int64_t samples);

class Machine;
struct Part;

/// What the replicas of a network cost, see nn::DataParallel. Bytes and seconds are means of a step.
struct ReplicaFigures {
  int replicas = 0;
  std::size_t first_bytes = 0;  ///< all that replica 0 holds: the table's rows but for the images
  std::size_t other_bytes = 0;  ///< that each other replica holds
  double parameters_out = 0;    ///< bytes out of replica 0
  double gradients_in = 0;      ///< bytes into it
  double samples_out = 0;
  double logits_in = 0;
  double copying = 0;
  double adding = 0;
};

/// One rank's copy of a model. The order of a step is written here, for processors and devices. One thread.
class Learner {
 public:
  /// `group` (null: a world of one) and `device` (null: this machine's processors) outlive it. A collective
  /// call; every rank starts with rank 0's parameters (in shards: with those of the seed, which all have
  /// alike). Throws Error (invalid_argument) for a deterministic world that cannot be.
  Learner(const LearnerTask& task, const Samples& data, ProcessGroup* group, nn::gpu::Ops* device = nullptr);
  ~Learner();
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// The micro-batches of the coming steps; `epoch` decides about crops and flips. What was left of a pass
  /// before is dropped.
  void begin_epoch(BatchPlan batches, int epoch);
  /// Takes the next micro-batches and makes one step of all ranks. In a deterministic world these
  /// are micro_batch_plan().count. Throws Error (invalid_argument) when the loss is no longer a number,
  /// naming rank and step, and the layer where that is known.
  StepResult step(const StepRequest& request);

  /// Gives all ranks rank 0's running statistics and puts the average of weights, where there is one, in the
  /// place of the weights, up to end_evaluation(). A collective call. `batches` are of test samples.
  void begin_evaluation(BatchPlan batches);
  /// Scores the next of them with the running statistics. May throw as step(), or leave it to who has the sum
  /// over all ranks.
  nn::BatchScore score();
  void end_evaluation();
  /// All of that, summed over all ranks, which have as many batches; empty where one of them is told to
  /// `stop`, which is asked before each batch (empty: nobody asks). Throws Error (invalid_argument) where the
  /// loss is not a number.
  std::optional<Score> evaluate(BatchPlan batches, const std::function<bool()>& stop = {});

  /// Writes the results of the network for one batch of test samples after the other, with the average of
  /// weights where there is one, and with this rank's running statistics, to `results`. Weights are as before
  /// even where it throws.
  void results(BatchPlan batches, float* results);

  /// Whether the optimizer's state, at least, is in shards: each rank has its part, and nobody has all.
  bool is_in_shards() const;
  /// After a checkpoint was read into the tensors, by rank 0, or by every rank where the model is in shards:
  /// gives all ranks rank 0's running statistics, and rank 0's parameters and optimizer state; where the
  /// model is in shards what each rank of the first copy has. A collective call.
  void share_state();
  /// Gives all ranks rank 0's running statistics, as a checkpoint holds them. A collective call.
  void share_statistics();

  /// Tells the other ranks why this one makes no more calls, where they are in calls that are none of the
  /// group's. Any thread.
  void abort(const std::string& reason);

  /// Throws Error (mismatch) that names parameter and rank where the ranks differ; a collective call.
  std::uint64_t parameter_hash();

  /// The tensors of the model: parameters, then running statistics, under PyTorch's names. With an average of
  /// weights and `averaged`, the parameters are the average. The values hold until the next step; those
  /// written there count after share_state(). Where the model is in shards: of parameters this rank's part,
  /// and running statistics on rank 0.
  std::vector<NamedTensor> model_tensors(bool averaged = false, Extent extent = Extent::held);
  /// State of the optimizer and the average, parameter by parameter: "momentum/conv1.weight",
  /// "ema/conv1.weight". As model_tensors().
  std::vector<NamedTensor> state_tensors(Extent extent = Extent::held);
  /// Calls `use` on rank 0 with the values of one whole parameter after the other, in the order of spec(),
  /// valid during the call. Where the model is in shards rank 0 gathers a bucket at a time. A collective
  /// call.
  void each_parameter(bool averaged, const std::function<void(const float* values)>& use);

  /// The gradient of a parameter in the last step: summed over samples and ranks.
  std::vector<float> gradient(std::size_t parameter) const;

  /// The tensors that the hook of the gradients' sums remembers; none in a world of one.
  std::vector<HookState> hook_state() const;

  std::int64_t steps() const { return steps_; }

  void set_steps(std::int64_t steps) { steps_ = steps; }

  /// How the loss is scaled in fp16, and steps left out; a run that goes on sets it, on all ranks alike.
  LossScale& loss_scale();

  const char* optimizer_kind() const { return options_.optimizer.kind.c_str(); }

  const nn::ModelSpec& spec() const;

  /// This rank's micro-batches in a deterministic world; empty elsewhere.
  const std::optional<MicroBatches>& micro_batch_plan() const { return plan_; }

  MemoryTable memory() const;
  /// Empty without replicas.
  std::optional<ReplicaFigures> replicas() const;

  /// What people should know of how it computes, once; "" where there is nothing new.
  std::string take_note();

  /// Records the steps from now on; null: no more.
  void record(TraceRecorder* recorder) { recorder_ = recorder; }

 private:
  class MeanStatistics;

  bool is_alone() const { return group_ == nullptr || group_->size() == 1; }

  void learn(const Part& part);
  void account(unsigned parts, StepTimes& times);
  void account_buckets(const StepTiming& timing, StepTimes& times) const;
  void account_units(unsigned parts, StepTimes& times);
  void swap_average();

  bool has_average() const;

  nn::DropoutKey draws(unsigned place, std::size_t samples) const;
  const float* test_logits(std::size_t count);
  std::uint64_t payload() const;

  const LearnerOptions options_;
  ProcessGroup* const group_;
  const std::optional<MicroBatches> plan_;
  const int most_parts_;  ///< micro-batches of a step
  const std::unique_ptr<Machine> machine_;
  ModelTensors tensors_;
  bool changed_ = true;  ///< the network has not been told of the values as they are now
  std::unique_ptr<MeanStatistics> statistics_;  ///< deterministic world only
  std::vector<std::size_t> sizes_;              ///< samples of each batch of a pass
  std::size_t next_ = 0;                        ///< batch of the pass
  std::size_t position_ = 0;                    ///< samples before it
  std::size_t step_position_ = 0;               ///< those of the step
  std::int64_t steps_ = 0;
  TraceRecorder* recorder_ = nullptr;
};

}  // namespace muster::train
