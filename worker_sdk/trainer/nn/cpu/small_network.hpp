// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/cpu/convolution.hpp"
#include "worker_sdk/trainer/nn/cpu/linear.hpp"
#include "worker_sdk/trainer/nn/cpu/pool.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace muster::nn::cpu {

/// 545,098 parameters for ten classes: 3x3 convolution to 32 channels, ReLU, 2x2 maximum; the same to 64
/// channels; linear to 128, ReLU; linear to the classes. The columns of fc1.weight are in the order height,
/// width, channels (PyTorch's flatten() makes it channels, height, width).
ModelSpec small_cnn_spec(std::int64_t classes);

/// The network of small_cnn_spec() on this machine's processors. Its linear layers compute in f32 in either
/// precision. As in ResNet, gradients of maps are written where the maps were.
class SmallNetwork : public Network {
 public:
  explicit SmallNetwork(const NetworkOptions& options);

  const ModelSpec& spec() const override { return spec_; }

  ImageFormat image_format() const override { return {}; }

  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override;
  void parameters_changed() override;
  const float* forward(const void* images, std::int64_t batch, Mode mode) override;
  void backward(const float* logits_gradient, const Ready& ready) override;
  std::string first_not_finite() const override;
  MemoryUse memory() const override;
  double flops_per_image() const override;

 private:
  /// A convolution, its result, and the pooled result.
  struct Stage {
    Stage(const std::shared_ptr<const Runtime>& runtime, const ConvolutionShape& shape, PooledTo to);

    void reserve(std::int64_t batch);
    void forward(const void* input, std::int64_t batch);
    /// Goes back from the gradient of the pooled result, and writes the gradient of the input to
    /// `input_gradient` where that is not null.
    void backward(const void* gradient, const void* input, std::int64_t batch, void* input_gradient);

    Convolution convolution;
    PooledTo to;
    ParameterSlot bias;
    Buffer x, pooled, winners;
  };

  const ModelSpec spec_;
  const NetworkOptions options_;
  const std::shared_ptr<const Runtime> runtime_;
  Stage first_;
  Stage second_;
  std::unique_ptr<Linear> hidden_, head_;
  std::vector<ParameterSlot> slots_;

  const void* images_ = nullptr;
  const float* hidden_result_ = nullptr;
  const float* logits_ = nullptr;
  std::int64_t batch_ = 0;
};

}  // namespace muster::nn::cpu
