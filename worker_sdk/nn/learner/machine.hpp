// SPDX-License-Identifier: Apache-2.0
// What a learner computes on: this machine's processors (make_host_machine()) or a device
// (make_device_machine()).
#pragma once

#include "worker_sdk/nn/learner/learner.hpp"
#include "worker_sdk/nn/learner/loss_scale.hpp"
#include "worker_sdk/nn/loss.hpp"
#include "worker_sdk/parallel/bucket_reducer.hpp"
#include "worker_sdk/parallel/memory.hpp"
#include "worker_sdk/parallel/shard_layout.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::nn {
class DataParallel;
}

namespace muster::train {

class ShardedModel;

/// A micro-batch of a step.
struct Part {
  std::size_t first = 0;    ///< place of its first sample among those of the epoch
  std::size_t samples = 0;  ///< none is allowed
  unsigned place = 0;       ///< number in the step
  bool last = true;
  std::size_t shape = 0;  ///< samples of all ranks in the step
  nn::DropoutKey draws;   ///< what dropout draws from
};

/// Points in time of a micro-batch.
enum class Moment : std::uint8_t {
  asked,   ///< its samples are wanted
  begun,   ///< they are there, forward begins
  turned,  ///< backward begins
  ended,   ///< backward has ended
};

inline constexpr std::size_t kMoments = 4;

/// A network, its arenas, its samples, and what is done with them. What run() is given calls open() to
/// close() of that part, and nothing of it may depend on anything but the part: a device records it when it
/// is made for the second time, and only replays it from then on. One thread.
class Machine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A state of the optimizer, or the average of the weights ("ema"), which is the last: an arena.
  struct State {
    std::string name;
    float* values;
  };

  virtual ~Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  nn::Network& network() const { return *network_; }

  /// In which all arenas lie.
  parallel::Memory& memory() const { return *memory_; }

  /// The shards of the model. Null: this rank has all of it.
  virtual ShardedModel* shards() { return nullptr; }

  /// What of each bucket this rank steps, and has the optimizer's state of: all of it where there are no
  /// shards.
  const parallel::ShardLayout& own() const { return own_; }

  /// Whether values() are those of all parameters, and not of own() alone.
  virtual bool has_whole_values() const { return true; }

  /// The places of the parameters in an arena.
  const parallel::BucketLayout& layout() const { return *layout_; }

  /// An arena; where shards() has no whole values: of shards.
  float* values() const { return values_; }

  /// Those of the last step, summed over samples and ranks. Not where there are shards.
  const float* gradients() const { return gradients_; }

  /// How the loss is scaled in fp16; in each precision the steps that were left out.
  LossScale& loss_scale() { return loss_scale_; }

  /// Of so many steps those that were not left out.
  std::int64_t made_of(std::int64_t steps) const { return steps - loss_scale_.skipped; }

  /// What the gradients of the last step are a multiple by; 1 leaves the bits as they are.
  virtual float loss_factor() const { return 1; }

  /// Where there are shards: arenas of them.
  const std::vector<State>& states() const { return states_; }

  /// All running statistics, one after the other.
  float* running() const { return running_; }

  std::size_t running_floats() const { return running_floats_; }

  /// Samples of the coming steps, batch after batch; what was left of a pass before is dropped. Throws Error
  /// (invalid_argument) for samples or batches that cannot be.
  virtual void begin_epoch(const BatchPlan& batches, int epoch) = 0;

  /// Step number `number` (1 is the first) begins.
  virtual void begin_step(std::int64_t number, const StepRequest& request) = 0;
  virtual void run(const Part& part, const std::function<void()>& work) = 0;
  /// The inputs of the part, in the network's format.
  virtual const void* inputs(const Part& part) = 0;
  /// The reducer begins with the part.
  virtual void open(const Part& part) = 0;
  /// Scores the logits; gives the gradient of the summed loss. May throw Error (invalid_argument) for a loss
  /// that is no number, or leave it to finish_step().
  virtual const float* loss(const Part& part, const float* logits) = 0;
  /// The gradient of a parameter stands.
  virtual void ready(std::size_t parameter) = 0;
  /// Behind all gradients: the part waits, or the step is made.
  virtual void close(const Part& part) = 0;
  virtual void mark(unsigned place, Moment moment) = 0;

  /// The step is done; its times are the learner's. Throws Error (invalid_argument) where a loss was no
  /// number.
  virtual StepResult finish_step() = 0;
  /// Times of the last step; that of a micro-batch's moment.
  virtual const StepTiming& timing() = 0;
  virtual Time time_of(unsigned place, Moment moment) = 0;
  /// Whether buckets are worked on beside backward, and not in the middle of it.
  virtual bool works_aside() const = 0;

  /// Test samples that are scored next, batch after batch.
  virtual void begin_test(BatchPlan batches) = 0;

  /// Most samples of a batch of test samples at once.
  virtual std::size_t capacity() const { return std::numeric_limits<std::size_t>::max(); }

  virtual const void* test_inputs(std::size_t count) = 0;
  virtual nn::BatchScore score(const float* logits, std::size_t count) = 0;
  /// Exchanges weights and their average, which there is.
  virtual void swap_average() = 0;

  /// The network as the replicas that it is; null: it is one.
  virtual const nn::DataParallel* replicas() const { return nullptr; }

  /// What people should know of how it computes, once; "" where there is nothing new.
  virtual std::string take_note() { return ""; }

  /// Fills in what the arenas do not hold.
  virtual void add_memory(MemoryTable& table) const = 0;

 protected:
  Machine() = default;

  /// Makes the arenas of the values and the running statistics, and gives the network its places. All outlive
  /// this object's use.
  void make_arenas(parallel::Memory& memory, const parallel::BucketLayout& layout, float* gradients);
  /// The same with values that there are.
  void make_arenas(parallel::Memory& memory, const parallel::BucketLayout& layout, parallel::ShardLayout own,
                   float* values, const std::vector<nn::ParameterSlot>& slots);

  std::unique_ptr<nn::Network> network_;
  std::vector<State> states_;

 private:
  parallel::Memory* memory_ = nullptr;
  const parallel::BucketLayout* layout_ = nullptr;
  parallel::ShardLayout own_;
  float* values_ = nullptr;
  const float* gradients_ = nullptr;
  float* running_ = nullptr;
  std::size_t running_floats_ = 0;
  LossScale loss_scale_;
};

/// The network that the options name.
nn::Description network_of(const LearnerOptions& options);

}  // namespace muster::train
