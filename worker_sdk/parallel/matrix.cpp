// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/matrix.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace muster::parallel {
namespace {

/// A column whose length falls below this share of its former length lies in the space of the columns before
/// it.
constexpr double kDependent = 1e-6;

constexpr std::size_t kLanes = 16;

/// The dot product of two vectors, in interleaved sums: a fixed order that a compiler can turn into vectors.
template <typename Sum>
Sum dot(const float* a, const float* b, std::size_t n) {
  std::array<Sum, kLanes> sums = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += static_cast<Sum>(a[i + lane]) * static_cast<Sum>(b[i + lane]);
  for (; i < n; ++i) sums[i % kLanes] += static_cast<Sum>(a[i]) * static_cast<Sum>(b[i]);
  for (std::size_t width = kLanes / 2; width > 0; width /= 2)
    for (std::size_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  return sums[0];
}

void add_scaled(float* target, float factor, const float* source, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) target[i] += factor * source[i];
}

}  // namespace

void multiply(const float* a, const float* q, float* p, std::size_t n, std::size_t m, std::size_t r) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < r; ++k) p[k * n + i] = dot<float>(a + i * m, q + k * m, m);
}

void multiply_transposed(const float* a, const float* p, float* q, std::size_t n, std::size_t m,
                         std::size_t r) {
  std::fill_n(q, m * r, 0.0F);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < r; ++k) add_scaled(q + k * m, p[k * n + i], a + i * m, m);
}

void outer_product(const float* p, const float* q, float* a, std::size_t n, std::size_t m, std::size_t r) {
  std::fill_n(a, n * m, 0.0F);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < r; ++k) add_scaled(a + i * m, p[k * n + i], q + k * m, m);
}

void orthonormalize(float* p, std::size_t n, std::size_t r) {
  for (std::size_t k = 0; k < r; ++k) {
    float* column = p + k * n;
    const double before = std::sqrt(dot<double>(column, column, n));
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t earlier = 0; earlier < k; ++earlier) {
        const double part = dot<double>(p + earlier * n, column, n);
        for (std::size_t i = 0; i < n; ++i)
          column[i] = static_cast<float>(column[i] - part * p[earlier * n + i]);
      }
    const double length = std::sqrt(dot<double>(column, column, n));
    const bool depends = !(length > kDependent * before);
    for (std::size_t i = 0; i < n; ++i) column[i] = depends ? 0.0F : static_cast<float>(column[i] / length);
  }
}

}  // namespace muster::parallel
