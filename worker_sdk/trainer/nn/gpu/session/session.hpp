// SPDX-License-Identifier: Apache-2.0
// Training on a device: data, parameters, optimizer state and scores stay there, and a step is one recorded
// graph.
#pragma once

#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/deterministic.hpp"
#include "worker_sdk/trainer/data/draw.hpp"
#include "worker_sdk/trainer/data/images.hpp"
#include "worker_sdk/trainer/nn/gpu/network/device_network.hpp"
#include "worker_sdk/trainer/nn/gpu/session/waiting_sums.hpp"
#include "worker_sdk/trainer/optim/optimizer.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::nn::gpu {

/// Sums the `count` floats of a bucket on the device over all ranks, in place, on `stream` (a cudaStream_t);
/// the first bucket has the header (parallel::kHeaderFloats) before it. May be recorded in a graph.
using DeviceAllReduce = std::function<void(std::size_t bucket, float* data, std::size_t count, void* stream)>;

struct SessionOptions {
  std::string model = "resnet18";
  Precision precision = Precision::bf16;
  std::int64_t classes = 10;
  /// Images of this rank in a step, at most.
  std::int64_t batch = 128;
  optim::OptimizerOptions optimizer;
  float label_smoothing = 0;
  data::Normalization normalization = data::kCifar10Normalization;
  data::Augmentation augmentation;
  /// The sizes of buckets, clipping (max_norm: the optimizer then waits for the whole gradient), and whether
  /// micro-batches are summed by the tree of a deterministic world.
  ReducerOptions reducer;
  /// Micro-batches of a step, at most: from two on with one more arena for their gradients, in a
  /// deterministic world with several.
  int micro_batches = 1;
  /// Decay of the moving average of weights; 0: no average.
  double average_decay = 0;
  /// The sum for batch norm over all ranks; empty: over this rank alone.
  DeviceSum sum_statistics;
  /// Called to launch a recorded step, with what launches it; empty: that is called at once.
  std::function<void(const std::function<void()>& work)> launch;
  /// Whether steps are recorded and replayed; off for looking at single kernels.
  bool graphs = true;
};

/// Sums over images: the loss, correct answers, and their number.
struct SessionScore {
  double loss = 0;
  double correct = 0;
  double images = 0;
};

/// The gradient of a step is the sum over the samples of all ranks, divided by their number, as everywhere;
/// ranks may have batches of different sizes, or none. One thread.
class Session {
 public:
  /// `ops` outlives the session. `all_reduce` may be empty: a world of one. The images are copied to the
  /// device. Parameters and running statistics are zero until they are written.
  Session(const SessionOptions& options, Ops& ops, const data::Images& train, const data::Images& test,
          DeviceAllReduce all_reduce);

  const ModelSpec& spec() const { return network_->spec(); }

  /// One tensor in its canonical order. Waits for the device.
  void write_parameter(std::size_t i, const float* values);
  void read_parameter(std::size_t i, float* values);
  void write_buffer(std::size_t i, const float* values);
  /// Reads a gradient of the last step: summed over samples and ranks.
  void read_gradient(std::size_t i, float* values);

  const parallel::BucketLayout& layout() const { return layout_; }

  /// The whole of an arena in that layout: the parameters, and each of state_names(). Waits for the device.
  void write_values(const float* arena) {
    packed_ = false;
    write(values_, arena);
  }

  void read_values(float* arena) { read(values_, arena); }

  void write_state(std::size_t state, const float* arena) { write(states_.at(state), arena); }

  void read_state(std::size_t state, float* arena) { read(states_.at(state), arena); }

  /// Optimizer state, as optim::Optimizer::state() names it, and "ema" where there is an average: for
  /// checkpoints.
  const std::vector<std::string>& state_names() const { return state_names_; }

  /// All running statistics, in the order of spec().buffers, without gaps. Waits for the device. After a
  /// step of a deterministic world they are the sum over this rank's micro-batches, each of which began with
  /// those before the step: the caller makes the mean over all ranks of it.
  void write_running(const float* values);
  void read_running(float* values);

  std::int64_t steps() const { return steps_; }

  void set_steps(std::int64_t steps) { steps_ = steps; }

  /// Images of this rank in `epoch`, in their order; which of them a step takes is said by step().
  void begin_epoch(std::span<const std::uint32_t> indices, int epoch);

  /// Puts a step on the device and returns: images [position, position + count) of the epoch; none is
  /// allowed. The first step of a size runs call by call and chooses plans, the second is recorded. Throws
  /// Error (invalid_argument) for images that are not there, and what `all_reduce` throws.
  void step(std::size_t position, std::size_t count, float learning_rate) {
    step(position, std::span(&count, 1), learning_rate);
  }

  /// Makes one step of the images of several micro-batches, which follow one another. Ranks record their
  /// steps of equal `shape` together, and launch them together, as NCCL wants it: a rank that has other
  /// counts in steps of some shape has them in each step of that shape.
  void step(std::size_t position, std::span<const std::size_t> counts, float learning_rate,
            std::size_t shape = 0);

  /// Name of the first layer whose result is not finite in a step that step() made of these images, and whose
  /// loss was no number, so that it changed no parameters. "" where there is none. With statistics of all
  /// ranks a collective call, with as many micro-batches on each. Slow; moves the running statistics.
  std::string first_not_finite(std::size_t position, std::span<const std::size_t> counts);

  /// What the network holds.
  MemoryUse network_memory() const { return network_->memory(); }

  /// The score of the steps since the last call, each before its step. Waits for the device.
  SessionScore take_score();

  /// Sets the score to zero, and two numbers beside it.
  void begin_tally(double first, double second);

  /// Loss, correct answers and images since then, and the two: kTallyNumbers on the device. As many behind
  /// them are the caller's.
  double* tally() { return train_score_; }

  /// Exchanges weights and their average: before evaluations, and again after them. Nothing before the first
  /// step.
  void swap_average();

  /// The order of the test images that evaluate() counts; without it, that of the data.
  void set_test_order(std::span<const std::uint32_t> indices);

  /// Scores test images [begin, end) of their order with the running statistics. Waits for the device.
  SessionScore evaluate(std::size_t begin, std::size_t end);

  /// Whether a step of this size is a recorded graph.
  bool is_recorded(std::size_t count) const;

  /// Bytes of gradients, also of those that wait for the end of their step.
  std::size_t gradient_bytes() const { return layout_.elements * sizeof(float) + waiting_.bytes(); }

 private:
  struct Set {
    std::uint8_t* pixels = nullptr;
    std::uint8_t* labels = nullptr;
    std::size_t size = 0;
  };

  /// A micro-batch of a step.
  struct Part {
    std::size_t images = 0;
    unsigned place = 0;  ///< number in the step; 1 stands for all numbers above 0 where they are alike
    bool last = true;
    std::size_t shape = 0;  ///< shape of the step; 0 where it has no calls between ranks

    auto operator<=>(const Part&) const = default;
  };

  struct Steps {
    int made = 0;
    std::unique_ptr<Graph> graph;
  };

  Set upload(const data::Images& images, const char* what);
  void bind();
  void set_values(std::size_t position, int epoch, bool augment, float learning_rate);
  void gather(const Set& set, const std::uint32_t* indices, std::int64_t images);
  void score(std::int64_t images, double* sums, float* gradient);
  void read(const float* arena, float* to);
  void write(float* arena, const float* from);
  void put_part(const Part& part);
  void begin_statistics(const Part& part);
  void end_statistics(const Part& part);
  void finish_bucket(std::size_t index, const Part& part);
  void clip_and_step();
  void step_range(std::size_t begin, std::size_t end);

  const SessionOptions options_;
  Ops& ops_;
  const DeviceAllReduce all_reduce_;
  const bool deterministic_;
  std::unique_ptr<Network> network_;
  const parallel::BucketLayout layout_;
  parallel::ReadyBuckets complete_;
  float* values_;
  float* header_;  ///< its first number is that of the step's samples; the gradients follow
  float* gradients_;
  WaitingSums waiting_;
  double* squares_;  ///< partial sums; null: no clipping
  float* clip_;
  std::vector<float*> states_;
  float* average_ = nullptr;  ///< the last of them, where there is one
  std::vector<std::string> state_names_;
  const std::size_t running_floats_;
  float* running_;
  float* running_before_;  ///< the running statistics before the step; null: no deterministic world
  WaitingSums running_waiting_;
  std::vector<float*> buffers_;  ///< parts of the running statistics
  std::uint8_t* decays_;
  StepValues* step_values_;
  Set train_;
  Set test_;
  std::uint32_t* indices_;
  std::uint32_t* test_indices_;
  void* images_;
  std::uint8_t* labels_;
  const float* logits_ = nullptr;
  float* losses_;
  float* hits_;
  float* logits_gradient_;
  double* train_score_;
  double* test_score_;
  std::map<Part, Steps> steps_of_;
  std::size_t epoch_size_ = 0;
  std::size_t test_size_ = 0;
  int epoch_ = 0;
  std::int64_t steps_ = 0;
  bool packed_ = false;  ///< the network has the values as they are now, for evaluations
};

}  // namespace muster::nn::gpu
