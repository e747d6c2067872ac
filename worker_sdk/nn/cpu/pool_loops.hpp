// SPDX-License-Identifier: Apache-2.0
// The bodies of the pooling kernels, for the instruction set of the including file.
#pragma once

#include "worker_sdk/nn/cpu/map_kernels.hpp"
#include "worker_sdk/nn/cpu/map_vectors.hpp"

namespace muster::nn::cpu {
namespace {

/// The greatest so far, and where it was found.
struct Best {
  Floats value = all(-__builtin_inff());
  Words place = {};

  /// Takes the larger value. A value that is not a number wins, so that it is not hidden from the loss.
  [[gnu::always_inline]] void offer(Floats candidate, std::uint32_t at) {
    const Words wins =
        reinterpret_cast<Words>(candidate > value) | reinterpret_cast<Words>(candidate != candidate);
    value = where(wins, candidate) + where(~wins, value);
    place = (words(at) & wins) | (place & ~wins);
  }
};

template <typename Stored>
void pool3_forward(const PoolPlane& plane, const void* map, void* result, std::uint8_t* winners) {
  const auto* x = static_cast<const Stored*>(map);
  auto* y = static_cast<Stored*>(result);
  const std::size_t out = (plane.side - 1) / 2 + 1;
  for (std::size_t row = 0; row < out; ++row)
    for (std::size_t column = 0; column < out; ++column) {
      Best best;
      for (std::size_t k = 0; k < 9; ++k) {
        // Unsigned: what is left of or above the map wraps to a large number.
        const std::size_t r = 2 * row + k / 3 - 1;
        const std::size_t c = 2 * column + k % 3 - 1;
        if (r >= plane.side || c >= plane.side) continue;
        best.offer(load(x + (r * plane.side + c) * plane.pitch), static_cast<std::uint32_t>(k));
      }
      const std::size_t at = (row * out + column) * plane.pooled_pitch;
      store(y + at, best.value);
      if (winners != nullptr) store_bytes(winners + at, best.place);
    }
}

template <typename Stored>
void pool3_backward(const PoolPlane& plane, const void* first, const void* second,
                    const std::uint8_t* winners, void* result) {
  const auto* dy = static_cast<const Stored*>(first);
  const auto* dy2 = static_cast<const Stored*>(second);
  auto* dx = static_cast<Stored*>(result);
  const std::size_t out = (plane.side - 1) / 2 + 1;
  for (std::size_t r = 0; r < plane.side; ++r)
    for (std::size_t c = 0; c < plane.side; ++c) {
      Floats sum = {};
      // The windows that hold this pixel: those of row r / 2 and, for odd r, the next.
      for (std::size_t row = r / 2; row <= (r + 1) / 2 && row < out; ++row)
        for (std::size_t column = c / 2; column <= (c + 1) / 2 && column < out; ++column) {
          const std::size_t place = (r + 1 - 2 * row) * 3 + (c + 1 - 2 * column);
          const std::size_t at = (row * out + column) * plane.pooled_pitch;
          Floats g = load(dy + at);
          if (dy2 != nullptr) g += load(dy2 + at);
          const Words won = load_bytes(winners + at) == words(static_cast<std::uint32_t>(place));
          sum += where(won, g);
        }
      store(dx + (r * plane.side + c) * plane.pitch, sum);
    }
}

/// Place of a window of 2 x 2 that nothing came from.
constexpr std::uint32_t kNowhere = 4;

template <typename Stored, typename Pooled>
void pool2_forward(const PoolPlane& plane, const void* map, const float* bias, void* result,
                   std::uint8_t* winners) {
  const auto* x = static_cast<const Stored*>(map);
  auto* y = static_cast<Pooled*>(result);
  const std::size_t out = plane.side / 2;
  const Floats shift = load(bias);
  for (std::size_t row = 0; row < out; ++row)
    for (std::size_t column = 0; column < out; ++column) {
      const Stored* from = x + (2 * row * plane.side + 2 * column) * plane.pitch;
      Best best;
      best.offer(load(from), 0);
      best.offer(load(from + plane.pitch), 1);
      best.offer(load(from + plane.side * plane.pitch), 2);
      best.offer(load(from + (plane.side + 1) * plane.pitch), 3);
      const Floats value = best.value + shift;
      const Words positive_ones = reinterpret_cast<Words>(value > all(0.0F));
      const std::size_t at = (row * out + column) * plane.pooled_pitch;
      store(y + at, positive(value));
      store_bytes(winners + at, (best.place & positive_ones) | (words(kNowhere) & ~positive_ones));
    }
}

template <typename Stored, typename Pooled>
void pool2_backward(const PoolPlane& plane, const void* gradient, const std::uint8_t* winners, void* result,
                    float* bias) {
  const auto* dy = static_cast<const Pooled*>(gradient);
  auto* dx = static_cast<Stored*>(result);
  const std::size_t out = plane.side / 2;
  Floats sum = {};
  for (std::size_t row = 0; row < out; ++row)
    for (std::size_t column = 0; column < out; ++column) {
      const std::size_t at = (row * out + column) * plane.pooled_pitch;
      const Floats g = load(dy + at);
      const Words place = load_bytes(winners + at);
      Stored* to = dx + (2 * row * plane.side + 2 * column) * plane.pitch;
      for (std::uint32_t k = 0; k < kNowhere; ++k)
        store(to + (k / 2 * plane.side + k % 2) * plane.pitch, where(place == words(k), g));
      sum += where(place != words(kNowhere), g);
    }
  store(bias, sum);
}

template <typename Stored>
void mean_of(std::size_t pixels, std::size_t pitch, const void* map, float* means) {
  const auto* x = static_cast<const Stored*>(map);
  Floats sum = {};
  for (std::size_t p = 0; p < pixels; ++p) sum += load(x + p * pitch);
  store(means, sum * (1.0F / static_cast<float>(pixels)));
}

template <typename Stored>
void spread_of(std::size_t pixels, std::size_t pitch, const float* means, void* map) {
  auto* dx = static_cast<Stored*>(map);
  const Floats share = load(means) * (1.0F / static_cast<float>(pixels));
  for (std::size_t p = 0; p < pixels; ++p) store(dx + p * pitch, share);
}

template <typename Stored>
constexpr PoolKernels kPoolKernels = {pool3_forward<Stored>,
                                      pool3_backward<Stored>,
                                      pool2_forward<Stored, Stored>,
                                      pool2_forward<Stored, float>,
                                      pool2_backward<Stored, Stored>,
                                      pool2_backward<Stored, float>,
                                      mean_of<Stored>,
                                      spread_of<Stored>};

}  // namespace
}  // namespace muster::nn::cpu
