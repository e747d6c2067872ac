// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/resnet_spec.hpp"

#include <string>

namespace muster::nn {
namespace {

/// Appends layers to a plan in the order in which PyTorch registers them.
class Builder {
 public:
  explicit Builder(ModelSpec& spec) : spec_(spec) {}

  ResNetUnit unit(const std::string& convolution, const std::string& norm, const ConvolutionSize& size) {
    const ResNetUnit unit = {size, spec_.parameters.size(), spec_.buffers.size()};
    spec_.parameters.push_back({convolution + ".weight", {unit.out, unit.in, unit.kernel, unit.kernel}});
    spec_.parameters.push_back({norm + ".weight", {unit.out}, false});
    spec_.parameters.push_back({norm + ".bias", {unit.out}, false});
    spec_.buffers.push_back({norm + ".running_mean", {unit.out}, false});
    spec_.buffers.push_back({norm + ".running_var", {unit.out}, false});
    return unit;
  }

  ResNetBlock block(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t side,
                    std::int64_t stride) {
    ResNetBlock block;
    block.first = unit(name + ".conv1", name + ".bn1", {in, out, side, 3, stride});
    block.second = unit(name + ".conv2", name + ".bn2", {out, out, block.first.result().side, 3, 1});
    block.has_shortcut = stride != 1 || in != out;
    if (block.has_shortcut)
      block.shortcut = unit(name + ".downsample.0", name + ".downsample.1", {in, out, side, 1, stride});
    return block;
  }

 private:
  ModelSpec& spec_;
};

}  // namespace

ResNetPlan plan_resnet18(bool imagenet_stem, std::int64_t classes) {
  ResNetPlan plan;
  plan.spec.name = imagenet_stem ? "resnet18-imagenet-stem" : "resnet18";
  plan.spec.classes = classes;
  Builder builder(plan.spec);
  plan.stem =
      builder.unit("conv1", "bn1", {kColours, 64, kImageSide, imagenet_stem ? 7 : 3, imagenet_stem ? 2 : 1});
  plan.pooled = imagenet_stem;
  std::int64_t channels = plan.stem.out;
  std::int64_t side = imagenet_stem ? kImageSide / 4 : kImageSide;
  for (int layer = 1; layer <= 4; ++layer)
    for (int number = 0; number < 2; ++number) {
      const std::int64_t out = std::int64_t{64} << (layer - 1);
      const std::int64_t stride = layer > 1 && number == 0 ? 2 : 1;
      const std::string name = "layer" + std::to_string(layer) + "." + std::to_string(number);
      plan.blocks.push_back(builder.block(name, channels, out, side, stride));
      channels = out;
      side = (side - 1) / stride + 1;
    }
  plan.features = channels;
  plan.fc_parameter = plan.spec.parameters.size();
  plan.spec.parameters.push_back({"fc.weight", {classes, channels}});
  plan.spec.parameters.push_back({"fc.bias", {classes}, false});
  return plan;
}

MapExtent largest_shortcut_input(const ResNetPlan& plan) {
  MapExtent largest;
  for (const ResNetBlock& block : plan.blocks) {
    const MapExtent input = {block.shortcut.in, block.shortcut.side};
    if (block.has_shortcut && input.elements() > largest.elements()) largest = input;
  }
  return largest;
}

}  // namespace muster::nn
