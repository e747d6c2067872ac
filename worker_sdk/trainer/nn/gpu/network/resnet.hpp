// SPDX-License-Identifier: Apache-2.0
// ResNet-18 on a device: the same steps in the same order as the CPU's (nn/cpu/resnet.cpp).
#pragma once

#include "worker_sdk/trainer/nn/gpu/network/device_network.hpp"
#include "worker_sdk/trainer/nn/gpu/network/layers.hpp"
#include "worker_sdk/trainer/nn/resnet_spec.hpp"

#include <memory>
#include <vector>

namespace muster::nn::gpu {

template <typename T>
class ResNet final : public DeviceNetwork {
 public:
  ResNet(ResNetPlan plan, std::int64_t capacity, Ops& ops, DeviceSum sum);

  const ModelSpec& spec() const override { return plan_.spec; }

  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override;

  void* images() override { return images_; }

  void pack_weights() override;
  const float* forward(std::int64_t batch, Mode mode) override;
  void backward(const float* logits_gradient, const Ready& ready) override;

 private:
  struct Unit {
    Unit(Room& room, const ResNetUnit& unit)
        : plan(unit),
          convolution(room,
                      {padded(unit.in), static_cast<int>(unit.out), static_cast<int>(unit.side),
                       static_cast<int>(unit.kernel), static_cast<int>(unit.stride),
                       static_cast<int>(unit.kernel / 2)},
                      static_cast<int>(unit.in)),
          norm(room, static_cast<int>(unit.out)) {}

    MapSize map(std::int64_t batch) const { return convolution.map(batch); }

    ResNetUnit plan;
    Convolution<T> convolution;
    Norm<T> norm;
  };

  struct Block {
    Block(Room& room, const ResNetBlock& block)
        : first(room, block.first),
          second(room, block.second),
          shortcut(block.has_shortcut ? std::make_unique<Unit>(room, block.shortcut) : nullptr),
          middle(room, first.map(room.capacity)),
          result(room, second.map(room.capacity)) {}

    Unit first;
    Unit second;
    std::unique_ptr<Unit> shortcut;
    Activation<T> middle;
    Activation<T> result;
  };

  /// A gradient in two parts, the second of which may be null.
  struct Gradient {
    const T* one;
    const T* two;
  };

  std::vector<Unit*> units();
  T* run_unit(Unit& unit, const T* input, Mode mode);
  T* run_block(Block& block, const T* input, Mode mode);
  void reverse_norm(Unit& unit, const MaskedGradient<T>& gradient, T* out, const Ready& ready);
  void reverse_unit(Unit& unit, const MaskedGradient<T>& gradient, const T* input, T* input_gradient,
                    const Ready& ready);
  Gradient reverse_block(Block& block, T* input, const Gradient& gradient, const Ready& ready);
  void reverse_stem(const Gradient& gradient, const Ready& ready);
  void reverse_nothing(const Ready& ready);

  const ResNetPlan plan_;
  Room room_;
  Unit stem_;
  Activation<T> stem_result_;
  PoolShape pool_;
  T* pooled_ = nullptr;
  std::uint8_t* winners_ = nullptr;
  std::vector<std::unique_ptr<Block>> blocks_;
  Head<T> head_;
  T* const images_;
  T* const features_;
  T* const features_gradient_;
  T* shortcut_gradient_ = nullptr;
  std::vector<ParameterSlot> slots_;
  std::int64_t batch_ = 0;
};

}  // namespace muster::nn::gpu
