// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/optim/make_optimizer.hpp"

namespace muster::optim {

/// Adam (Kingma & Ba, ICLR 2015) and AdamW (Loshchilov & Hutter, ICLR 2019) as torch.optim defines them:
///   m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) g^2;
///   value -= rate / (1 - beta1^t) * m / (sqrt(s) / sqrt(1 - beta2^t) + epsilon).
/// Adam adds weight decay * value to g; AdamW scales the value by 1 - rate * weight decay first.
class Adam final : public Optimizer {
 public:
  /// Makes Adam or AdamW, as options.kind says.
  Adam(const OptimizerOptions& options, Arena arena);

  void step(std::size_t begin, std::size_t end, float learning_rate, float gradient_scale) override;
  std::vector<StateArena> state() override;

  const char* kind() const override { return decoupled_ ? "adamw" : "adam"; }

 private:
  const OptimizerOptions options_;
  const Arena arena_;
  const bool decoupled_;
  std::vector<float> mean_;
  std::vector<float> square_;
};

}  // namespace muster::optim
