// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/cpu/layer.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace muster::nn::cpu {

struct LinearShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// result = input * weight^T + bias, with weight out x in, as PyTorch's. Weights and gradients are used in
/// place, in the plain layout. Primitives are kept for each batch size met. One thread.
class Linear {
 public:
  Linear(std::shared_ptr<const Runtime> runtime, const LinearShape& shape, const LayerParameters& parameters);
  ~Linear();
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  /// batch x in -> batch x out, valid until the next call with this batch size.
  float* forward(const float* input, std::int64_t batch);
  /// Computes the gradients for the batch of the last forward(), whose `input` still holds. `gradient` is
  /// that of the result. Returns the gradient of the input.
  float* backward(const float* gradient);

 private:
  struct Plan;
  Plan& plan_for(std::int64_t batch);

  std::shared_ptr<const Runtime> runtime_;
  const LinearShape shape_;
  const LayerParameters parameters_;
  std::map<std::int64_t, std::unique_ptr<Plan>> plans_;
  Plan* last_ = nullptr;
};

}  // namespace muster::nn::cpu
