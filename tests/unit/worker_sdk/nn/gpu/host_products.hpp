// SPDX-License-Identifier: Apache-2.0
// Products of matrices as their definition, in 32-bit floats in the order of k, as our own kernel makes them:
// so a product has the same bits whichever way a device computes it.
#pragma once

#include "worker_sdk/nn/gpu/ops.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn::gpu {

template <typename T, typename Result>
void multiply_as(const MultiplyCall& call) {
  const auto size = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const auto floats = [&](const Matrix& matrix, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
    const T* const from = static_cast<const T*>(matrix.data) + batch * matrix.batch;
    std::vector<float> result;
    result.reserve(size(rows * columns));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        result.push_back(to_float(from[r * matrix.row + c * matrix.column]));
    return result;
  };
  std::vector<float> sums(size(call.n));
  for (std::int64_t batch = 0; batch < call.batches; ++batch) {
    const auto a = floats(call.a, batch, call.m, call.k);
    const auto b = floats(call.b, batch, call.k, call.n);
    Result* to = static_cast<Result*>(call.result) + batch * call.result_batch;
    for (std::int64_t r = 0; r < call.m; ++r, to += call.result_row) {
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (std::int64_t k = 0; k < call.k; ++k) {
        const float factor = a[size(r * call.k + k)];
        const float* const row = b.data() + k * call.n;
        for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += factor * row[c];
      }
      std::transform(sums.begin(), sums.end(), to, [](float sum) { return from_float<Result>(sum); });
    }
  }
}

inline void multiply_by_definition(const MultiplyCall& call) {
  const bool floats = call.result_element == Element::f32;
  switch (call.element) {
    case Element::f32:
      return multiply_as<float, float>(call);
    case Element::bf16:
      return floats ? multiply_as<Bf16, float>(call) : multiply_as<Bf16, Bf16>(call);
    case Element::f16:
      return floats ? multiply_as<F16, float>(call) : multiply_as<F16, F16>(call);
  }
}

/// A convolution of images of one pixel is a product.
inline MultiplyCall product_of(const ConvolutionCall& call) {
  const std::int64_t in = call.shape.in;
  const std::int64_t out = call.shape.out;
  MultiplyCall product;
  product.element = product.result_element = call.element;
  product.result = call.result;
  switch (call.direction) {
    case Direction::forward:
      product.m = call.images, product.n = out, product.k = in;
      product.a = {call.a, in, 1};
      product.b = {call.b, 1, in};
      break;
    case Direction::input_gradient:
      product.m = call.images, product.n = in, product.k = out;
      product.a = {call.a, out, 1};
      product.b = {call.b, in, 1};
      break;
    case Direction::weight_gradient:
      product.m = out, product.n = in, product.k = call.images;
      product.a = {call.b, 1, out};
      product.b = {call.a, in, 1};
      break;
  }
  product.result_row = product.n;
  return product;
}

}  // namespace muster::nn::gpu
