// SPDX-License-Identifier: Apache-2.0
// The bodies of the row kernels, for the instruction set of the including file.
#pragma once

#include "worker_sdk/nn/cpu/attention_loops.hpp"
#include "worker_sdk/nn/cpu/row_kernels.hpp"
#include "worker_sdk/nn/cpu/row_vectors.hpp"

namespace muster::nn::cpu {
namespace {

void relu_of(const float* x, std::size_t count, float* y) {
  along(count, [&](std::size_t at, auto part) {
    const Floats value = part.load(x + at);
    part.store(y + at, where(~reinterpret_cast<Words>(value <= all(0.0F)), value));
  });
}

void relu_backward_of(const float* y, const float* dy, std::size_t count, float* dx) {
  along(count, [&](std::size_t at, auto part) {
    const Words positive_ones = reinterpret_cast<Words>(part.load(y + at) > all(0.0F));
    part.store(dx + at, where(positive_ones, part.load(dy + at)));
  });
}

/// The standard normal distribution.
struct Normal {
  Floats below;    ///< the probability of a smaller value
  Floats density;  ///< but for the factor 1 / sqrt(2 pi)
};

/// By formula 7.1.26 of Abramowitz and Stegun, "Handbook of Mathematical Functions", with an error below
/// 1e-7, whose exponential is the density, too. The small tail of a negative x is not a difference.
[[gnu::always_inline]] inline Normal normal_at(Floats x) {
  const Words negative = reinterpret_cast<Words>(x < all(0.0F));
  const Floats size = reinterpret_cast<Floats>(reinterpret_cast<Words>(x) & 0x7FFFFFFFU);
  const Floats t = 1.0F / (size * (0.3275911F * 0.70710678F) + 1.0F);
  Floats sum = t * 1.061405429F - 1.453152027F;
  sum = sum * t + 1.421413741F;
  sum = sum * t - 0.284496736F;
  sum = sum * t + 0.254829592F;
  const Floats density = exponential(x * x * -0.5F);
  const Floats tail = sum * t * density * 0.5F;
  return {where(negative, tail) + where(~negative, 1.0F - tail), density};
}

void gelu_of(const float* x, std::size_t count, float* y) {
  along(count, [&](std::size_t at, auto part) {
    const Floats value = part.load(x + at);
    part.store(y + at, value * normal_at(value).below);
  });
}

void gelu_backward_of(const float* x, const float* dy, std::size_t count, float* dx) {
  along(count, [&](std::size_t at, auto part) {
    const Floats value = part.load(x + at);
    const Normal normal = normal_at(value);
    const Floats slope = value * normal.density * 0.39894228F + normal.below;
    part.store(dx + at, part.load(dy + at) * slope);
  });
}

void add_of(const float* a, const float* b, std::size_t count, float* y) {
  along(count, [&](std::size_t at, auto part) { part.store(y + at, part.load(a + at) + part.load(b + at)); });
}

void sum_rows_of(const float* x, std::size_t rows, std::size_t width, std::size_t pitch, float factor,
                 float* y) {
  // Four columns of vectors at once: one alone would wait for each of its additions.
  constexpr std::size_t kColumns = 4;
  std::size_t first = 0;
  for (; first + kColumns * kLanes <= width; first += kColumns * kLanes) {
    Floats sum[kColumns] = {};
    for (std::size_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < kColumns; ++v) sum[v] += load(x + r * pitch + first + v * kLanes);
#pragma GCC unroll 4
    for (std::size_t v = 0; v < kColumns; ++v) store(y + first + v * kLanes, sum[v] * factor);
  }
  along(width - first, [&](std::size_t at, auto part) {
    Floats sum = {};
    for (std::size_t r = 0; r < rows; ++r) sum += part.load(x + r * pitch + first + at);
    part.store(y + first + at, sum * factor);
  });
}

void repeat_row_of(const float* x, std::size_t rows, std::size_t width, float factor, float* y) {
  along(width, [&](std::size_t at, auto part) {
    const Floats value = part.load(x + at) * factor;
    for (std::size_t r = 0; r < rows; ++r) part.store(y + r * width + at, value);
  });
}

constexpr float kNormEpsilon = 1e-5F;

void norm_of(const NormRows& n, const float* x, float* y, float* moments) {
  const float share = 1.0F / static_cast<float>(n.width);
  for (std::size_t r = 0; r < n.rows; ++r, x += n.width, y += n.width) {
    Floats sum = {};
    along(n.width, [&](std::size_t at, auto part) { sum += part.load(x + at); });
    const float mean = lane_sum(sum) * share;
    Floats squares = {};
    along(n.width, [&](std::size_t at, auto part) {
      const Floats distance = part.kept(part.load(x + at) - mean);
      squares += distance * distance;
    });
    const float inverse = 1.0F / __builtin_sqrtf(lane_sum(squares) * share + kNormEpsilon);
    along(n.width, [&](std::size_t at, auto part) {
      const Floats normal = (part.load(x + at) - mean) * inverse;
      part.store(y + at, normal * part.load(n.scale + at) + part.load(n.shift + at));
    });
    moments[2 * r] = mean;
    moments[2 * r + 1] = inverse;
  }
}

/// dx = (g - mean(g) - h * mean(g * h)) / deviation with h = (x - mean) / deviation and g = dy * scale, as
/// for batch norm (Ioffe and Szegedy, 2015, section 3).
void norm_backward_of(const NormRows& n, const float* x, const float* dy, const float* moments, float* dx,
                      float* scale_sums, float* shift_sums) {
  const float share = 1.0F / static_cast<float>(n.width);
  along(n.width, [&](std::size_t at, auto part) {
    part.store(scale_sums + at, Floats{});
    part.store(shift_sums + at, Floats{});
  });
  for (std::size_t r = 0; r < n.rows; ++r, x += n.width, dy += n.width, dx += n.width) {
    const float mean = moments[2 * r];
    const float inverse = moments[2 * r + 1];
    Floats total = {}, product = {};
    along(n.width, [&](std::size_t at, auto part) {
      // In lanes behind the row's end dy is 0.
      const Floats gradient = part.load(dy + at);
      const Floats normal = (part.load(x + at) - mean) * inverse;
      const Floats scaled = gradient * part.load(n.scale + at);
      part.store(scale_sums + at, part.load(scale_sums + at) + gradient * normal);
      part.store(shift_sums + at, part.load(shift_sums + at) + gradient);
      total += scaled;
      product += scaled * normal;
    });
    const float mean_gradient = lane_sum(total) * share;
    const float mean_product = lane_sum(product) * share;
    along(n.width, [&](std::size_t at, auto part) {
      const Floats normal = (part.load(x + at) - mean) * inverse;
      const Floats scaled = part.load(dy + at) * part.load(n.scale + at);
      part.store(dx + at, (scaled - mean_gradient - normal * mean_product) * inverse);
    });
  }
}

constexpr RowKernels kRowTable = {relu_of,       relu_backward_of, gelu_of,         gelu_backward_of, add_of,
                                  sum_rows_of,   repeat_row_of,    norm_of,         norm_backward_of, turn,
                                  panel_product, attend,           attend_backward, attention_scratch};

}  // namespace
}  // namespace muster::nn::cpu
