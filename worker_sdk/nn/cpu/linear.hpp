// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/room.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace muster::nn::cpu {

struct LinearShape {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  std::int64_t tokens = 1;  ///< rows of one sample
};

/// result = input * weight^T + bias (where there is one), with weight out x in, as PyTorch's. Weights and
/// gradients are used in place, in the plain layout. Primitives are kept for each batch size met. One thread.
class Linear : public WorkspaceHolder {
 public:
  Linear(std::shared_ptr<const Runtime> runtime, const LinearShape& shape);
  ~Linear() override;

  const LinearShape& shape() const { return shape_; }

  /// `bias` is not used where the shape has none.
  void bind(const ParameterSlot& weight, const ParameterSlot& bias);

  void weights_changed() {}

  /// batch x in -> batch x out.
  void forward(const float* x, std::int64_t batch, float* y);
  /// Writes the gradients of the parameters, summed over the batch, and that of the input to `dx`, which may
  /// be where x is, or null: it is not wanted. `dy` is that of the result, and is left as it is.
  void backward(const float* x, const float* dy, std::int64_t batch, float* dx);

  Workspace workspace() const override;
  Workspace workspace_for(std::span<const BatchSize> batches) const override;

 private:
  struct Plan;
  Plan& plan_for(std::int64_t batch);
  std::size_t turned_bytes(std::int64_t rows) const;
  void forward_in_panels(const float* x, std::size_t batch, float* y);

  std::shared_ptr<const Runtime> runtime_;
  const LinearShape shape_;
  ParameterSlot weight_, bias_;
  std::map<std::int64_t, std::unique_ptr<Plan>> plans_;
  Buffer turned_;  ///< the samples as columns, for forward_in_panels()
};

/// A linear layer, then max(0, y).
class HiddenLinear {
 public:
  HiddenLinear(std::shared_ptr<const Runtime> runtime, const LinearShape& shape);

  void bind(const ParameterSlot& weight, const ParameterSlot& bias) { linear_.bind(weight, bias); }

  void weights_changed() {}

  void forward(const float* x, std::int64_t batch, float* y);
  /// As Linear::backward(), from the result `y`. `dy` is overwritten.
  void backward(const float* x, const float* y, float* dy, std::int64_t batch, float* dx);

  const WorkspaceHolder& holder() const { return linear_; }

 private:
  Linear linear_;
};

}  // namespace muster::nn::cpu
