// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/optim/make_optimizer.hpp"

namespace muster::optim {

/// Stochastic gradient descent as torch.optim.SGD defines it, without dampening (PyTorch documentation,
/// "SGD"):
///   g = gradient + weight decay * value;  v = momentum * v + g;
///   value -= rate * v, with Nesterov rate * (g + momentum * v).
class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, Arena arena);

  void step(std::size_t begin, std::size_t end, float learning_rate, float gradient_scale) override;
  std::vector<StateArena> state() override;

  const char* kind() const override { return "sgd"; }

 private:
  const OptimizerOptions options_;
  const Arena arena_;
  std::vector<float> velocity_;  ///< empty without momentum
};

}  // namespace muster::optim
