// SPDX-License-Identifier: Apache-2.0
// The name and shape of a trainable tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster {

/// Name and shape of one trainable tensor of 32-bit floats. Plain data.
struct ParameterSpec {
  /// The name, unique in its model, for example "conv1.weight".
  std::string name;
  /// The extents, slowest first. Each is positive.
  std::vector<std::int64_t> shape;
  /// Whether weight decay applies; it does not to biases, nor to the scale and shift of a batch norm.
  bool decay = true;

  std::size_t elements() const {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
};

}  // namespace muster
