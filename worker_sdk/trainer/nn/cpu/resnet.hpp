// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/cpu/batch_norm.hpp"
#include "worker_sdk/trainer/nn/cpu/convolution.hpp"
#include "worker_sdk/trainer/nn/cpu/linear.hpp"
#include "worker_sdk/trainer/nn/network.hpp"
#include "worker_sdk/trainer/nn/resnet_spec.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace muster::nn::cpu {

/// A residual network on this machine's processors. backward() keeps no maps of its own: the gradient of a
/// map is written where the map was, once nobody reads it any more.
class ResNet : public Network {
 public:
  ResNet(ResNetPlan plan, const NetworkOptions& options);

  const ModelSpec& spec() const override { return plan_.spec; }

  ImageFormat image_format() const override { return {}; }

  void bind(std::span<const ParameterSlot> parameters, std::span<float* const> buffers) override;
  void parameters_changed() override;
  const float* forward(const void* images, std::int64_t batch, Mode mode) override;
  void backward(const float* logits_gradient, const Ready& ready) override;
  std::string first_not_finite() const override;
  MemoryUse memory() const override;
  double flops_per_image() const override;

 private:
  /// A convolution, its result x, and the batch norm that reads it.
  struct Unit {
    Unit(const std::shared_ptr<const Runtime>& runtime, const ResNetUnit& plan, const MapFormat& format,
         const NetworkOptions& options, bool of_images);

    const ResNetUnit plan;
    Convolution convolution;
    BatchNorm norm;
    Buffer x;
  };

  /// The result of a batch norm with ReLU, and where it is positive.
  struct Activation {
    Buffer y;
    Buffer signs;
  };

  struct Block {
    Block(const std::shared_ptr<const Runtime>& runtime, const ResNetBlock& plan, const MapFormat& format,
          const NetworkOptions& options);

    Unit first;
    Unit second;
    std::unique_ptr<Unit> shortcut;
    Activation middle;
    Activation result;
  };

  /// The two parts of the gradient of a block's input, which backward() still has to add up.
  struct Gradient {
    const void* one = nullptr;
    const void* two = nullptr;
  };

  void reserve(std::int64_t batch);
  void reserve(Activation& activation, const MapShape& shape, std::int64_t batch) const;
  std::vector<Unit*> units();
  const void* run_unit(Unit& unit, const void* input, Mode mode);
  const void* run_block(Block& block, const void* input, Mode mode);
  Gradient reverse_block(Block& block, const void* input, void* input_gradient, const Gradient& gradient,
                         const std::function<void(std::size_t)>& ready);
  void reverse_stem(const Gradient& gradient, const std::function<void(std::size_t)>& ready);
  std::uint16_t* signs(const Activation& activation, Mode mode) const;

  const ResNetPlan plan_;
  const NetworkOptions options_;
  const MapFormat format_;
  const std::shared_ptr<const Runtime> runtime_;
  Unit stem_;
  Activation stem_result_;
  Buffer pooled_, winners_;
  std::deque<Block> blocks_;
  Buffer features_, features_gradient_, shortcut_gradient_;
  std::unique_ptr<Linear> head_;
  ParameterSlot head_weight_, head_bias_;

  const void* images_ = nullptr;
  std::int64_t batch_ = 0;
  std::int64_t reserved_ = -1;
  std::vector<float> no_logits_;
};

}  // namespace muster::nn::cpu
