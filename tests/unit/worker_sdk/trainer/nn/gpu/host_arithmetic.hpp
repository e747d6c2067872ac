// SPDX-License-Identifier: Apache-2.0
// Convolutions as their definition; long sums are in double.
#pragma once

#include "worker_sdk/trainer/nn/gpu/ops.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace muster::nn::gpu {

/// Calls body(x, w, y) with the offsets of everything that a convolution multiplies.
template <typename Body>
void each_product(const ConvolutionCall& call, const Body& body) {
  const ConvolutionShape& s = call.shape;
  const int out = s.out_side();
  for (std::int64_t n = 0; n < call.images; ++n)
    for (int r = 0; r < out; ++r)
      for (int c = 0; c < out; ++c)
        for (int k = 0; k < s.kernel * s.kernel; ++k) {
          const int row = r * s.stride - s.padding + k / s.kernel;
          const int column = c * s.stride - s.padding + k % s.kernel;
          if (row < 0 || column < 0 || row >= s.side || column >= s.side) continue;
          const std::int64_t x = ((n * s.side + row) * s.side + column) * s.in;
          const std::int64_t y = ((n * out + r) * out + c) * s.out;
          for (int o = 0; o < s.out; ++o) body(x, (std::int64_t{o} * s.kernel * s.kernel + k) * s.in, y + o);
        }
}

template <typename T>
void convolve_as(const ConvolutionCall& call) {
  const ConvolutionShape& s = call.shape;
  const auto floats = [](const void* from, std::size_t count) {
    std::vector<float> result;
    result.reserve(count);
    for (std::size_t i = 0; i < count; ++i) result.push_back(to_float(static_cast<const T*>(from)[i]));
    return result;
  };
  const auto size = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const std::size_t xs = size(call.images * s.side * s.side * s.in);
  const std::size_t ys = size(call.images * s.out_side() * s.out_side() * s.out);
  const std::size_t ws = size(std::int64_t{s.out} * s.kernel * s.kernel * s.in);
  const std::size_t results[] = {ys, xs, ws};
  std::vector<double> sums(results[static_cast<int>(call.direction)]);
  const auto a = floats(call.a, call.direction == Direction::input_gradient ? ys : xs);
  const auto b = floats(call.b, call.direction == Direction::weight_gradient ? ys : ws);
  switch (call.direction) {
    case Direction::forward:
      each_product(call, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
        float sum = 0;
        for (int i = 0; i < s.in; ++i) sum += a[size(x + i)] * b[size(w + i)];
        sums[size(y)] += static_cast<double>(sum);
      });
      break;
    case Direction::input_gradient:
      each_product(call, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
        for (int i = 0; i < s.in; ++i) sums[size(x + i)] += static_cast<double>(a[size(y)] * b[size(w + i)]);
      });
      break;
    case Direction::weight_gradient:
      each_product(call, [&](std::int64_t x, std::int64_t w, std::int64_t y) {
        if (b[size(y)] == 0) return;
        for (int i = 0; i < s.in; ++i) sums[size(w + i)] += static_cast<double>(a[size(x + i)] * b[size(y)]);
      });
      break;
  }
  std::transform(sums.begin(), sums.end(), static_cast<T*>(call.result),
                 [](double sum) { return from_float<T>(static_cast<float>(sum)); });
}

}  // namespace muster::nn::gpu
