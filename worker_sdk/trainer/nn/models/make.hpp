// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/models/resnet.hpp"
#include "worker_sdk/trainer/nn/models/small_cnn.hpp"

#include <memory>
#include <string_view>

namespace muster::nn {

inline constexpr std::string_view kResNet = "resnet18";
inline constexpr std::string_view kResNetImageNet = "resnet18-imagenet-stem";
inline constexpr std::string_view kSmallCnn = "small-cnn";

/// Throws Error (invalid_argument) for an unknown model, naming the known ones, and for classes below 2.
void check_model(std::string_view model, std::int64_t classes);

/// A model over a set of layers. The name and the classes have passed check_model().
template <LayerSet Layers>
std::unique_ptr<Network> make_model(std::string_view model, std::int64_t classes,
                                    const typename Layers::Options& options) {
  if (model == kSmallCnn) return std::make_unique<SmallCnn<Layers>>(classes, options);
  return std::make_unique<ResNet<Layers>>(plan_resnet18(model == kResNetImageNet, classes), options);
}

}  // namespace muster::nn
