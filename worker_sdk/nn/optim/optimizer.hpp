// SPDX-License-Identifier: Apache-2.0
// How parameters follow their gradients. An optimizer works on ranges of the arena in which the Reducer laid
// the parameters out, so that it can run over one bucket as soon as that bucket is reduced.
#pragma once

#include "worker_sdk/parallel/parameter.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster::optim {

/// The floats [begin, end) of an arena.
struct ArenaRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The arenas that an optimizer works on. They have one layout and outlive it. Gaps between parameters are
/// zero in all of them and stay zero.
struct Arena {
  float* values = nullptr;
  /// Sums over samples; scaled by the step's `gradient_scale`. Never written.
  const float* gradients = nullptr;
  std::size_t elements = 0;
  /// The ranges where weight decay applies, ascending and disjoint.
  std::vector<ArenaRange> decay;
};

/// One arena of optimizer state, for a checkpoint: elements() floats at the parameters' offsets.
struct StateArena {
  std::string name;  ///< "momentum"; Adam: "exp_avg", "exp_avg_sq"
  std::span<float> values;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Opens the next step, and counts it. Call it once per step, before the step's ranges.
  void begin_step() { ++steps_; }

  /// Applies the open step to the floats [begin, end): the gradient is gradients[i] * gradient_scale (1 /
  /// samples of all ranks, times the factor of clipping). Every element once per step, in any cut: the same
  /// bits. Disjoint ranges may run on several threads at once; uses the calling thread's OpenMP threads.
  void step(std::size_t begin, std::size_t end, float learning_rate, float gradient_scale) {
    step_at(arena_.values + begin, arena_.gradients + begin, begin, end, learning_rate, gradient_scale);
  }

  /// The same where values and gradients lie elsewhere than the state: at `values` and `gradients` is float
  /// `begin` of the arenas of state. Those of the Arena may be null then.
  virtual void step_at(float* values, const float* gradients, std::size_t begin, std::size_t end,
                       float learning_rate, float gradient_scale) = 0;

  /// The arenas that a checkpoint holds beside the parameters and steps(); they are written to when one is
  /// read.
  virtual std::vector<StateArena> state() = 0;

  /// Steps begun so far; Adam's bias correction depends on it.
  std::int64_t steps() const { return steps_; }

  void set_steps(std::int64_t steps) { steps_ = steps; }

 protected:
  explicit Optimizer(Arena arena) : arena_(std::move(arena)) {}

  const Arena arena_;

 private:
  std::int64_t steps_ = 0;
};

/// Names and defaults are PyTorch's, but the momentum's, which is what recipes for these networks use.
/// Doubles, as in Python: 1 - 0.999 rounded to a float early would be 5e-5 off.
struct OptimizerOptions {
  /// The optimizer: "sgd", "adam" or "adamw".
  std::string kind = "sgd";
  double momentum = 0.9;    ///< sgd
  bool nesterov = false;    ///< sgd; needs a momentum
  double weight_decay = 0;  ///< L2 for sgd and adam, decoupled for adamw
  bool decay_all =
      false;  ///< batch norms and biases decay, too, as they do in PyTorch unless one leaves them out
  double beta1 = 0.9;     ///< adam, adamw
  double beta2 = 0.999;   ///< adam, adamw
  double epsilon = 1e-8;  ///< adam, adamw
};

/// Throws Error (invalid_argument) for a kind that is none or a number that no recipe can mean.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, Arena arena);

/// The names of the optimizers: "sgd", "adam", "adamw".
std::vector<std::string> optimizer_names();

}  // namespace muster::optim
