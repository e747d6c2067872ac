// SPDX-License-Identifier: Apache-2.0
// ResNet-18 of He et al., "Deep Residual Learning for Image Recognition", 2015, as a table. Pure.
#pragma once

#include "worker_sdk/trainer/nn/layers.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn {

/// A convolution and the batch norm behind it, whose tensors stand one after the other in the model: weight,
/// scale, shift at `parameter`, mean and variance at `buffer`.
struct ResNetUnit : ConvolutionSize {
  std::size_t parameter = 0;
  std::size_t buffer = 0;
};

/// result = relu(second(relu(first(input))) + shortcut(input)); without a shortcut the input itself is added.
struct ResNetBlock {
  ResNetUnit first;
  ResNetUnit second;
  bool has_shortcut = false;
  ResNetUnit shortcut;
};

struct ResNetPlan {
  ModelSpec spec;
  ResNetUnit stem;
  bool pooled = false;  ///< whether the stem ends with a maximum over 3 x 3 at stride 2
  std::vector<ResNetBlock> blocks;
  std::int64_t features = 0;     ///< inputs of the linear layer
  std::size_t fc_parameter = 0;  ///< number of the layer's weight; the bias follows
};

/// `imagenet_stem`: 7 x 7 at stride 2 and the maximum, as torchvision builds it for large images; else 3 x 3,
/// as the paper does for CIFAR.
ResNetPlan plan_resnet18(bool imagenet_stem, std::int64_t classes);

/// The largest maps that a shortcut reads.
MapExtent largest_shortcut_input(const ResNetPlan& plan);

}  // namespace muster::nn
