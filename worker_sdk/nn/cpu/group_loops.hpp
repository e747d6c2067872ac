// SPDX-License-Identifier: Apache-2.0
// The bodies of the kernels between maps and rows, for the instruction set of the including file.
#pragma once

#include "worker_sdk/nn/cpu/map_kernels.hpp"
#include "worker_sdk/nn/cpu/map_vectors.hpp"

namespace muster::nn::cpu {
namespace {

template <typename Stored>
void add_bias_of(const GroupPlane& plane, const void* map, const float* bias, void* result) {
  const auto* x = static_cast<const Stored*>(map);
  auto* y = static_cast<Stored*>(result);
  const Floats shift = load(bias);
  for (std::size_t p = 0; p < plane.pixels; ++p)
    store(y + p * plane.pitch, load(x + p * plane.pitch) + shift);
}

template <typename Stored>
void group_sum_of(const GroupPlane& plane, const void* map, float* sums) {
  const auto* x = static_cast<const Stored*>(map);
  Floats sum = {};
  for (std::size_t p = 0; p < plane.pixels; ++p) sum += load(x + p * plane.pitch);
  store(sums, sum);
}

template <typename Stored>
void to_rows_of(const GroupPlane& plane, const void* map, std::size_t row_pitch, float* rows) {
  const auto* x = static_cast<const Stored*>(map);
  for (std::size_t p = 0; p < plane.pixels; ++p) store(rows + p * row_pitch, load(x + p * plane.pitch));
}

template <typename Stored>
void from_rows_of(const GroupPlane& plane, const float* rows, std::size_t row_pitch, void* map) {
  auto* x = static_cast<Stored*>(map);
  for (std::size_t p = 0; p < plane.pixels; ++p) store(x + p * plane.pitch, load(rows + p * row_pitch));
}

template <typename Stored>
void to_channels_of(const GroupPlane& plane, const void* map, float* channels) {
  const auto* x = static_cast<const Stored*>(map);
  for (std::size_t p = 0; p < plane.pixels; ++p) {
    float lanes[kLanes];
    store(lanes, load(x + p * plane.pitch));
    for (std::size_t c = 0; c < kLanes; ++c) channels[c * plane.pixels + p] = lanes[c];
  }
}

template <typename Stored>
void from_channels_of(const GroupPlane& plane, const float* channels, void* map) {
  auto* x = static_cast<Stored*>(map);
  for (std::size_t p = 0; p < plane.pixels; ++p) {
    float lanes[kLanes];
    for (std::size_t c = 0; c < kLanes; ++c) lanes[c] = channels[c * plane.pixels + p];
    store(x + p * plane.pitch, load(lanes));
  }
}

template <typename Stored>
constexpr GroupKernels kGroupKernels = {add_bias_of<Stored>,    group_sum_of<Stored>,
                                        to_rows_of<Stored>,     from_rows_of<Stored>,
                                        to_channels_of<Stored>, from_channels_of<Stored>};

}  // namespace
}  // namespace muster::nn::cpu
