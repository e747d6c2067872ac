// SPDX-License-Identifier: Apache-2.0
// Networks of one's own, trained on all ranks of a group. Needs libmuster_nn.so (CMake: Muster::nn), which
// takes the place of libmuster.so. All layers, and a whole program: docs/nn.md. What a step is, and the rules
// of its calls: muster/abi/nn.h.
//
//   namespace nn = muster::nn;
//   const nn::Network network(nn::features(8), {nn::linear(32), nn::relu(), nn::linear(1)}, nn::Loss::mse);
//   nn::Learner learner(world.group(), network, [](const nn::Batch& batch) { ...fill inputs, targets... });
//   for (int step = 0; step < 100; ++step) learner.step(64, 0.1F);
#pragma once

#include "muster/abi/nn.h"
#include "muster/check.hpp"
#include "muster/group.hpp"
#include "muster/nn_layers.hpp"
#include "muster/reducer.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster {
inline namespace v0 {
namespace nn {

/// A batch that is wanted: places to fill, sample after sample, which hold zeros. Of inputs and ids, and of
/// labels and targets, one is empty, depending on the network's input and loss. See muster_nn_batch.
struct Batch {
  bool training = true;                    ///< whether the batch is for a step, else for an evaluation
  std::int64_t steps = 0;                  ///< steps of the learner that were made before
  std::span<const std::uint32_t> numbers;  ///< numbers of the samples, from 0 on over all ranks
  std::span<float> inputs;                 ///< images as height x width x channels, or features
  std::span<std::int32_t> ids;
  std::span<std::int32_t> labels;
  std::span<float> targets;
};

/// Fills a batch, on the thread that calls the learner. Its exceptions come out of that call; the other
/// ranks' call ends, too. It calls neither the learner nor its group.
using Fill = std::function<void(const Batch&)>;

enum class Device : std::int32_t { cpu, cuda };
enum class Precision : std::int32_t { f32, tf32, bf16, f16 };
enum class OptimizerKind : std::int32_t { sgd, adam, adamw };

/// An optimizer; names and formulas are those of torch.optim. 0 for a beta or epsilon is its default.
struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0;      ///< momentum of sgd
  bool nesterov = false;    ///< whether sgd uses Nesterov's momentum
  double weight_decay = 0;  ///< L2 for sgd and adam, decoupled for adamw
  bool decay_all = false;   ///< whether biases and norms decay, too
  double beta1 = 0.9;       ///< for adam and adamw
  double beta2 = 0.999;     ///< for adam and adamw
  double epsilon = 1e-8;    ///< for adam and adamw
};

/// The options of a learner; see muster_nn_options.
struct LearnerOptions {
  Device device = Device::cpu;
  Precision precision = Precision::f32;
  Optimizer optimizer = {};
  /// Samples that a rank computes at once, at most; 0: the default, 64.
  std::uint64_t batch_size = 0;
  /// Micro-batches of `batch_size` that a rank computes in a step, at most; 0: the default, 1.
  std::uint32_t accumulation = 0;
  /// Micro-batches of a step of all ranks, for bits that do not depend on their number; 0: not wanted.
  std::int32_t deterministic_micro_batches = 0;
  /// Threads of this process's computations; 0: the default, OMP_NUM_THREADS, else all processors.
  std::int32_t threads = 0;
  /// Seed of the first parameters, and of dropout.
  std::uint64_t seed = 0;
  /// Decay of an average of the weights, which is scored, asked and saved in their place; 0: no average.
  double ema_decay = 0;
  double label_smoothing = 0;
  /// L2 norm to which the mean gradient is scaled down; 0: no clipping.
  double max_norm = 0;
  /// Whether batch norm uses the batch of all ranks.
  bool sync_batch_norm = false;
  /// Compression of gradients: none, bf16 or f16.
  Compression compression = Compression::none;
};

/// Means over the samples of all ranks, the same on all of them.
struct Score {
  std::int64_t samples = 0;
  double loss = 0;
  double accuracy = 0;  ///< 0 to 1; 0 without labels
};

/// The content of a file.
enum class Saved : std::int32_t {
  parameters,  ///< the parameters with running statistics; the average of the weights where there is one
  everything,  ///< the parameters, and all that a learner needs to go on with the same bits
};

/// A network in training. Calls are collective but where they say otherwise. One thread. Lives no longer than
/// its group.
class Learner {
 public:
  /// Makes a learner; all ranks of the group call it alike. Throws Error (invalid_argument) that names the
  /// layer that cannot be, (mismatch) that names the rank with another network or other options,
  /// (unsupported) for what this machine or device does not compute.
  Learner(Group& group, const Network& network, Fill fill, const LearnerOptions& options = {})
      : Learner(group.handle(), network, std::move(fill), options) {}

  /// Makes a learner in a world of one.
  explicit Learner(const Network& network, Fill fill, const LearnerOptions& options = {})
      : Learner(nullptr, network, std::move(fill), options) {}

  /// Makes one step over `samples` samples of all ranks, 1 to global_batch(); the score is that of before the
  /// step. Throws Error (invalid_argument) also where the loss is no longer a number.
  Score step(std::uint64_t samples, float learning_rate) {
    muster_nn_score score = empty_score();
    check(muster_nn_step(handle_.get(), samples, learning_rate, &score));
    return {score.samples, score.loss, score.accuracy};
  }

  /// Scores `samples` samples of all ranks, without training.
  Score evaluate(std::uint64_t samples) {
    muster_nn_score score = empty_score();
    check(muster_nn_evaluate(handle_.get(), samples, &score));
    return {score.samples, score.loss, score.accuracy};
  }

  /// The network's results for some samples: outputs() values for each; logits, where the loss is cross
  /// entropy. Not collective.
  std::vector<float> predict(std::span<const float> inputs) {
    return predicted(inputs.data(), inputs.size());
  }

  std::vector<float> predict_ids(std::span<const std::int32_t> ids) {
    return predicted(ids.data(), ids.size());
  }

  /// Writes a safetensors file with PyTorch's names, on rank 0.
  void save(const std::string& path, Saved what = Saved::parameters) {
    check(muster_nn_save(handle_.get(), path.c_str(), static_cast<std::int32_t>(what)));
  }

  /// Reads a file of save() on rank 0 for all ranks, or one of PyTorch's with these names and shapes. Returns
  /// whether it had everything.
  bool load(const std::string& path) {
    std::int32_t whole = 0;
    check(muster_nn_load(handle_.get(), path.c_str(), &whole));
    return whole != 0;
  }

  /// Compares the parameters of all ranks, bit for bit, and returns their hash. Throws Error (mismatch).
  std::uint64_t check_parameters() {
    std::uint64_t hash = 0;
    check(muster_nn_check(handle_.get(), &hash));
    return hash;
  }

  /// The number of steps made so far. Not collective, like the functions that follow.
  std::int64_t steps() const { return info().steps; }

  std::uint64_t global_batch() const { return info().global_batch; }

  /// The number of values of a sample.
  std::uint64_t inputs() const { return info().inputs; }

  /// The number of results of the network for a sample.
  std::uint64_t outputs() const { return info().outputs; }

  /// The number of floats in all parameters.
  std::uint64_t parameters() const { return info().values; }

  muster_nn_learner* handle() const { return handle_.get(); }

 private:
  /// The function that the library calls back; it stays at its address when the learner is moved.
  struct Call {
    Fill fill;
    std::exception_ptr thrown;
  };

  Learner(muster_group* group, const Network& network, Fill fill, const LearnerOptions& options)
      : call_(std::make_unique<Call>(Call{std::move(fill), nullptr})) {
    const muster_nn_options given = options_of(options);
    muster_nn_learner* learner = nullptr;
    detail::check(
        muster_nn_learner_create(group, network.text().c_str(), &given, call_fill, call_.get(), &learner));
    handle_.reset(learner);
  }

  static muster_nn_options options_of(const LearnerOptions& options) {
    muster_nn_options given = {};
    given.size = sizeof given;
    given.device = static_cast<muster_nn_device>(options.device);
    given.precision = static_cast<muster_nn_precision>(options.precision);
    given.threads = options.threads;
    given.batch_size = options.batch_size;
    given.accumulation = options.accumulation;
    given.deterministic_micro_batches = options.deterministic_micro_batches;
    given.seed = options.seed;
    given.optimizer = static_cast<muster_nn_optimizer>(options.optimizer.kind);
    if (options.optimizer.nesterov) given.flags |= MUSTER_NN_NESTEROV;
    if (options.optimizer.decay_all) given.flags |= MUSTER_NN_DECAY_ALL;
    if (options.sync_batch_norm) given.flags |= MUSTER_NN_SYNC_BATCH_NORM;
    given.momentum = options.optimizer.momentum;
    given.weight_decay = options.optimizer.weight_decay;
    given.beta1 = options.optimizer.beta1;
    given.beta2 = options.optimizer.beta2;
    given.epsilon = options.optimizer.epsilon;
    given.ema_decay = options.ema_decay;
    given.label_smoothing = options.label_smoothing;
    given.max_norm = options.max_norm;
    given.compression = static_cast<muster_compression>(options.compression);
    return given;
  }

  static muster_rc call_fill(const muster_nn_batch* batch, void* user) {
    auto* call = static_cast<Call*>(user);
    try {
      const auto places = [batch](auto* first, std::uint64_t each) {
        return std::span(first, first == nullptr ? 0 : batch->samples * each);
      };
      call->fill({batch->training != 0, batch->steps, places(batch->numbers, 1),
                  places(batch->inputs, batch->inputs_each), places(batch->ids, batch->inputs_each),
                  places(batch->labels, 1), places(batch->targets, batch->targets_each)});
      return MUSTER_OK;
    } catch (const Error& error) {
      call->thrown = std::current_exception();
      return static_cast<muster_rc>(error.code());
    } catch (...) {
      call->thrown = std::current_exception();
      return MUSTER_E_STATE;
    }
  }

  static muster_nn_score empty_score() {
    muster_nn_score score = {};
    score.size = sizeof score;
    return score;
  }

  void check(muster_rc code) {
    if (code == MUSTER_OK) return;
    if (call_->thrown != nullptr) std::rethrow_exception(std::exchange(call_->thrown, nullptr));
    detail::raise(code);
  }

  muster_nn_info info() const {
    muster_nn_info info = {};
    info.size = sizeof info;
    detail::check(muster_nn_get_info(handle_.get(), &info));
    return info;
  }

  std::vector<float> predicted(const void* values, std::size_t count) {
    const muster_nn_info known = info();
    if (count == 0 || count % known.inputs != 0)
      throw Error(ErrorCode::invalid_argument, "predict: " + std::to_string(count) +
                                                   " values, where each sample has " +
                                                   std::to_string(known.inputs));
    std::vector<float> outputs(count / known.inputs * known.outputs);
    check(muster_nn_predict(handle_.get(), values, count / known.inputs, outputs.data()));
    return outputs;
  }

  std::unique_ptr<Call> call_;  ///< outlives the handle
  detail::Owned<muster_nn_learner, muster_nn_learner_free> handle_;
};

enum class ScheduleKind : std::int32_t { constant, step, cosine, one_cycle };

/// A learning rate over the steps of a run; see muster_nn_schedule.
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double rate = 0.1;  ///< the base rate; one_cycle: the highest
  std::int64_t total_steps = 1;
  std::int64_t step_steps = 1;    ///< for step: steps between two changes of the rate
  double gamma = 0.1;             ///< for step: factor of each change
  double minimum = 0;             ///< for cosine: the rate down to which it goes
  double peak_share = 0.3;        ///< for one_cycle: share of the steps up to the highest rate
  std::int64_t warmup_steps = 0;  ///< a straight line from warmup_start * rate; not with one_cycle
  double warmup_start = 0;

  /// The rate of step `step`, 0 is the first. Throws Error (invalid_argument) for a schedule that cannot be.
  float at(std::int64_t step) const {
    muster_nn_schedule given = {};
    given.size = sizeof given;
    given.kind = static_cast<muster_nn_schedule_kind>(kind);
    given.rate = rate;
    given.total_steps = total_steps;
    given.step_steps = step_steps;
    given.gamma = gamma;
    given.minimum = minimum;
    given.peak_share = peak_share;
    given.warmup_steps = warmup_steps;
    given.warmup_start = warmup_start;
    float found = 0;
    detail::check(muster_nn_rate(&given, step, &found));
    return found;
  }
};

/// The numbers 0 to count - 1 in the order in which pass `epoch` uses that many samples: a permutation that
/// depends on the arguments alone.
inline std::vector<std::uint32_t> shuffled(std::uint32_t count, std::uint64_t seed, std::int32_t epoch) {
  std::vector<std::uint32_t> order(count);
  detail::check(muster_nn_order(count, seed, epoch, order.data()));
  return order;
}

}  // namespace nn
}  // namespace v0
}  // namespace muster
