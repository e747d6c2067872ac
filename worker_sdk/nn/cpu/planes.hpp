// SPDX-License-Identifier: Apache-2.0
// Maps as the kernels of pools and of single channel groups walk over them.
#pragma once

#include "worker_sdk/nn/cpu/map.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn::cpu {

/// One image's channel group: where it starts, and how far its pixels lie apart.
struct Plane {
  std::size_t first = 0;
  std::size_t pitch = 0;
};

inline Plane plane_of(const MapShape& shape, std::size_t number) {
  if (shape.format.blocked) return {number * shape.pixels() * kLanes, kLanes};
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t groups = channels / kLanes;
  return {number / groups * shape.pixels() * channels + number % groups * kLanes, channels};
}

/// Calls body(group number) for all channel groups of all images, on all threads.
template <typename Body>
void each_group(const MapShape& shape, std::int64_t batch, const Body& body) {
  const std::size_t count = static_cast<std::size_t>(batch * shape.channels) / kLanes;
#pragma omp parallel for schedule(static)
  for (std::size_t g = 0; g < count; ++g) body(g);
}

/// Element `at` of a map of unknown type; null where there is no map.
inline const void* element(const void* map, std::size_t at, std::size_t bytes) {
  return map == nullptr ? nullptr : static_cast<const char*>(map) + at * bytes;
}

inline void* element(void* map, std::size_t at, std::size_t bytes) {
  return map == nullptr ? nullptr : static_cast<char*>(map) + at * bytes;
}

/// Adds up the groups' vectors per channel, in a fixed order.
inline void add_groups(const std::vector<float>& sums, std::size_t channels, float* to) {
  for (std::size_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (std::size_t at = c; at < sums.size(); at += channels) sum += static_cast<double>(sums[at]);
    to[c] = static_cast<float>(sum);
  }
}

}  // namespace muster::nn::cpu
