// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/rows.hpp"

#include <cstdint>
#include <vector>

namespace muster::nn::cpu {

/// y = (x - mean) / sqrt(variance + 1e-5) * scale + shift, with the statistics of each row: Ba et al., "Layer
/// Normalization", 2016, with PyTorch's epsilon. Sums over rows are taken in parts that do not depend on the
/// number of threads. One thread.
class LayerNorm : public WorkspaceHolder {
 public:
  LayerNorm(Room& room, std::int64_t tokens, std::int64_t width);

  /// `width` floats each.
  void bind(const ParameterSlot& scale, const ParameterSlot& shift);

  /// y is not x. Keeps mean and deviation of each row for backward().
  void forward(const float* x, std::int64_t rows, float* y) const;
  /// Gradients of scale and shift, and that of x to dx, which may be dy or x.
  void backward(const float* x, const float* dy, std::int64_t rows, float* dx);

  Workspace workspace() const override;
  Workspace workspace_for(std::span<const BatchSize> batches) const override;

 private:
  NormRows part(std::size_t rows) const;

  const RowShape shape_;
  const Memory<float> moments_;  ///< mean and inverse deviation of each row
  ParameterSlot scale_, shift_;
  std::vector<float> scale_sums_, shift_sums_;  ///< of each part
};

}  // namespace muster::nn::cpu
