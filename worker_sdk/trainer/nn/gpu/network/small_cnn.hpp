// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/gpu/network/device_network.hpp"
#include "worker_sdk/trainer/nn/gpu/network/layers.hpp"

#include <vector>

namespace muster::nn::gpu {

/// Two convolutions with bias, ReLU and pooling, two linear layers: nn/cpu/small_cnn.cpp on a device.
template <typename T>
class SmallCnn final : public DeviceNetwork {
 public:
  SmallCnn(ModelSpec spec, std::int64_t capacity, Ops& ops);

  const ModelSpec& spec() const override { return spec_; }

  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override;

  void* images() override { return images_; }

  void pack_weights() override;
  const float* forward(std::int64_t batch, Mode mode) override;
  void backward(const float* logits_gradient, const Ready& ready) override;

 private:
  /// A convolution, its result after ReLU, and that pooled by half. Gradients replace all three.
  struct Stage {
    Stage(Room& room, int in, int real_in, int out, int side);

    Convolution<T> convolution;
    PoolShape pool;
    Activation<T> positive;
    T* pooled;
    std::uint8_t* winners;
    ParameterSlot bias;
  };

  void run_stage(Stage& stage, const T* input);
  void reverse_stage(Stage& stage, const T* input, std::size_t weight, const Ready& ready);

  const ModelSpec spec_;
  Room room_;
  Stage first_;
  Stage second_;
  Linear<T> hidden_;
  T* const products_;  ///< products of the hidden layer, and later their gradient
  Activation<T> features_;
  Head<T> head_;
  T* const images_;
  std::vector<ParameterSlot> slots_;
  std::int64_t batch_ = 0;
};

}  // namespace muster::nn::gpu
