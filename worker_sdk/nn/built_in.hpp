// SPDX-License-Identifier: Apache-2.0
// The built-in networks as lists of layers.
#pragma once

#include "worker_sdk/nn/description.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::nn {

/// The names of the built-in models, such as "resnet18".
std::vector<std::string> model_names();

/// The built-in network of that name (model_names()) with so many outputs, for images of
/// 3 x 32 x 32. Throws Error (invalid_argument) for an unknown name, naming the known ones, and for classes
/// below 2.
Description built_in(std::string_view model, std::int64_t classes);

}  // namespace muster::nn
