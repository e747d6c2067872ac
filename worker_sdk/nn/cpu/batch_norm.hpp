// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/room.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn::cpu {

/// Batch norm over the channels of a map, followed by ReLU, or by the sum with a second map and ReLU: Ioffe
/// and Szegedy, "Batch Normalization", 2015, with PyTorch's epsilon 1e-5 and momentum 0.1.
/// Sums are taken strip by strip and added up in double in a fixed order, so they do not depend on the number
/// of threads. One thread.
class BatchNorm : public WorkspaceHolder {
 public:
  /// `exchange` (may be null: the statistics of this batch) outlives the layer.
  BatchNorm(const MapShape& shape, StatisticsExchange* exchange);

  /// Scale and shift with their gradients, and the running statistics: as many floats as channels each.
  void bind(const ParameterSlot& scale, const ParameterSlot& shift, float* running_mean,
            float* running_variance);

  /// Takes the statistics of x (train), or the running ones; apply() and the backward calls use them.
  void measure(const void* x, std::int64_t batch, Mode mode);

  /// y = max(0, norm(x) + addend). `addend` may be null; where `addend_norm` is not null the addend is passed
  /// through that batch norm first, whose measure() has been called. `signs` (may be null: evaluation) gets a
  /// bit for each positive element of y.
  void apply(const void* x, const void* addend, const BatchNorm* addend_norm, void* y, std::uint16_t* signs,
             std::int64_t batch) const;

  /// Parameter gradients, as sums over the samples, from the gradient of y (`args.dy` + `args.dy2`, masked by
  /// `args.signs`). Writes that gradient of the sum before the ReLU to `out`, where not null.
  void backward_sums(const BackwardArgs& args, void* out, std::int64_t batch);

  /// Writes the gradient of x to `dx`, which may be args.x. Call it after backward_sums().
  void backward(const BackwardArgs& args, void* dx, std::int64_t batch) const;

  /// The sums of strips.
  Workspace workspace() const override {
    return {(strip_sums_.capacity() + strip_products_.capacity()) * sizeof(float), 0};
  }

  Workspace workspace_for(std::span<const BatchSize> batches) const override {
    return {2 * static_cast<std::size_t>(largest(batches, true) * shape_.channels) * sizeof(float), 0};
  }

 private:
  void use_statistics(const double* mean, const double* variance);
  void add_strips(std::int64_t batch, double* sums, double* products, bool centred);

  const MapShape shape_;
  const MapKernels& kernels_;
  StatisticsExchange* const exchange_;
  ParameterSlot scale_;
  ParameterSlot shift_;
  float* running_mean_ = nullptr;
  float* running_variance_ = nullptr;

  double count_ = 0;  ///< elements of a channel, over all ranks that exchange
  std::vector<double> mean_, inverse_deviation_;
  std::vector<float> mean_f32_, forward_scale_, forward_shift_;  ///< y = scale * x + shift
  std::vector<float> by_gradient_, by_x_, constant_;             ///< dx = a * g + b * x + c
  std::vector<float> strip_sums_, strip_products_;
};

}  // namespace muster::nn::cpu
