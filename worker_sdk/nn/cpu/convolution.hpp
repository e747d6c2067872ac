// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/cpu/room.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstdint>
#include <map>
#include <memory>

namespace muster::nn::cpu {

/// A convolution without bias over square maps, padded with zeros.
struct ConvolutionShape {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t side = 0;  ///< height and width of the input
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  MapFormat format;
  /// Whether the input is the batch of images: f32, nhwc, and nobody wants its gradient.
  bool of_images = false;
  std::int64_t padding = kernel / 2;

  std::int64_t out_side() const { return (side + 2 * padding - kernel) / stride + 1; }
};

/// Runs one convolution and its two gradients through oneDNN, by Winograd's method where it is offered (f32,
/// 3 x 3, stride 1: a quarter of the multiplications, at an error of about 1e-5 of the largest result).
/// Primitives are kept for each batch size met. Maps are the caller's; all are plain pointers to memory of
/// the shape and format. One thread.
class Convolution : public WorkspaceHolder {
 public:
  /// `keeps_copies`: see NetworkOptions::keep_weight_copies.
  Convolution(std::shared_ptr<const Runtime> runtime, const ConvolutionShape& shape,
              bool keeps_copies = true);
  ~Convolution() override;

  /// Weights are out x in x height x width, of floats.
  void bind(const ParameterSlot& weight);
  /// Says that the values of the weights have changed: copies of them in the library's layout are stale.
  void weights_changed();

  void forward(const void* src, std::int64_t batch, void* dst);
  /// Writes the gradient of the weights, summed over the batch; zero for an empty one.
  void backward_weights(const void* src, const void* dst_gradient, std::int64_t batch);
  /// Writes the gradient of the input to `src_gradient`, which may be where src was.
  void backward_data(const void* dst_gradient, std::int64_t batch, void* src_gradient);

  /// The weights in the library's layout and images in the kernels' type, and gradients and scratch.
  Workspace workspace() const override;
  Workspace workspace_for(std::span<const BatchSize> batches) const override;

 private:
  struct Plan;
  class Packed;
  Plan& plan_for(std::int64_t batch);

  std::shared_ptr<const Runtime> runtime_;
  ConvolutionShape shape_;
  const bool keeps_copies_;
  ParameterSlot weight_;
  std::unique_ptr<Packed> packed_;
  std::map<std::int64_t, std::unique_ptr<Plan>> plans_;
};

}  // namespace muster::nn::cpu
