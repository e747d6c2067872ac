// SPDX-License-Identifier: Apache-2.0
// Convolutions on the host as sums of products of matrices, one for each place in the window. Products are
// summed in floats over kDepth values at most, then in double, in one order on every machine.
#pragma once

#include "tests/unit/worker_sdk/nn/gpu/host_products.hpp"
#include "worker_sdk/nn/gpu/ops.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace muster::nn::gpu {

/// sums[row][c] += left[row][d * step] * right[d][c], summed over d, for each column c < width, a multiple of
/// eight. One thread.
struct Product {
  std::vector<const float*> left;
  std::ptrdiff_t step = 1;
  std::vector<const float*> right;  ///< null: a row of zeros
  std::vector<double*> sums;        ///< one a row of `left`, none twice
  int width = 0;
};

namespace detail {

constexpr std::size_t kRows = 6;
constexpr std::size_t kDepth = 256;
constexpr std::size_t kLanes = 8;
using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;

/// Adds one or two vectors of products to sums in memory.
template <std::size_t kVectors>
[[gnu::always_inline]] inline void add_to(double* sums, const Vector& first, const Vector& second) {
  for (std::size_t i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(first[i]);
  if constexpr (kVectors == 2)
    for (std::size_t i = 0; i < kLanes; ++i) sums[kLanes + i] += static_cast<double>(second[i]);
}

/// A block of `rows` rows, at most one for each R, and kVectors vectors of columns, over [begin, end) of the
/// depth. Written out, so that the sums stay in registers.
template <std::size_t kVectors, std::size_t... R>
[[gnu::always_inline]] inline void add_block(const Product& product, std::size_t row, std::size_t rows,
                                             std::size_t column, std::size_t begin, std::size_t end,
                                             std::index_sequence<R...>) {
  Vector first[kRows] = {};
  Vector second[kRows] = {};
  const float* const left[kRows] = {product.left[row + std::min(R, rows - 1)]...};
  const float* const* const right = product.right.data();
  for (std::size_t d = begin; d < end; ++d) {
    if (right[d] == nullptr) continue;
    const std::ptrdiff_t place = static_cast<std::ptrdiff_t>(d) * product.step;
    Vector one;
    std::memcpy(&one, right[d] + column, sizeof(one));
    ((first[R] += left[R][place] * one), ...);
    if constexpr (kVectors == 2) {
      std::memcpy(&one, right[d] + column + kLanes, sizeof(one));
      ((second[R] += left[R][place] * one), ...);
    }
  }
  ((R < rows ? add_to<kVectors>(product.sums[row + R] + column, first[R], second[R]) : void()), ...);
}

[[gnu::always_inline]] inline void add_all(const Product& product) {
  constexpr std::size_t kColumns = 2 * kLanes;
  constexpr auto kEachRow = std::make_index_sequence<kRows>();
  const auto width = static_cast<std::size_t>(product.width);
  for (std::size_t begin = 0; begin < product.right.size(); begin += kDepth) {
    const std::size_t end = std::min(product.right.size(), begin + kDepth);
    for (std::size_t column = 0; column < width; column += kColumns)
      for (std::size_t row = 0; row < product.left.size(); row += kRows) {
        const std::size_t rows = std::min(kRows, product.left.size() - row);
        if (column + kColumns <= width)
          add_block<2>(product, row, rows, column, begin, end, kEachRow);
        else
          add_block<1>(product, row, rows, column, begin, end, kEachRow);
      }
  }
}

#ifdef __x86_64__
/// Without FMA, which would give other bits than the machines that lack it.
[[gnu::target("avx2")]] inline void add_all_avx2(const Product& product) {
  add_all(product);
}
#endif

}  // namespace detail

inline void add(const Product& product) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return detail::add_all_avx2(product);
#endif
  detail::add_all(product);
}

/// A convolution with its operands as floats.
class HostConvolution {
 public:
  /// `a` and `b` as in the call.
  HostConvolution(const ConvolutionCall& call, std::vector<float> a, std::vector<float> b)
      : shape_(call.shape), images_(call.images), a_(std::move(a)), b_(std::move(b)) {}

  std::vector<double> compute(Direction direction) {
    const std::int64_t counts[] = {pixels() * shape_.out, images_ * shape_.side * shape_.side * shape_.in,
                                   std::int64_t{shape_.out} * taps() * shape_.in};
    sums_.assign(static_cast<std::size_t>(counts[static_cast<int>(direction)]), 0);
    for (int tap = 0; tap < taps(); ++tap) add(product_of(direction, tap));
    return std::move(sums_);
  }

 private:
  int taps() const { return shape_.kernel * shape_.kernel; }

  /// Of the output, in all images.
  std::int64_t pixels() const { return images_ * shape_.out_side() * shape_.out_side(); }

  /// Where the input begins that a pixel of the output takes at this place in the window; -1: beside the
  /// image.
  std::int64_t input_of(std::int64_t pixel, int tap) const {
    const int side = shape_.out_side();
    const int row =
        static_cast<int>(pixel / side % side) * shape_.stride - shape_.padding + tap / shape_.kernel;
    const int column = static_cast<int>(pixel % side) * shape_.stride - shape_.padding + tap % shape_.kernel;
    if (row < 0 || column < 0 || row >= shape_.side || column >= shape_.side) return -1;
    const std::int64_t image = pixel / (std::int64_t{side} * side);
    return ((image * shape_.side + row) * shape_.side + column) * shape_.in;
  }

  std::int64_t weights_of(int out, int tap) const { return (std::int64_t{out} * taps() + tap) * shape_.in; }

  Product product_of(Direction direction, int tap) {
    Product product;
    product.width = direction == Direction::forward ? shape_.out : shape_.in;
    if (direction == Direction::weight_gradient) {
      product.step = shape_.out;
      for (int o = 0; o < shape_.out; ++o) {
        product.left.push_back(b_.data() + o);
        product.sums.push_back(sums_.data() + weights_of(o, tap));
      }
    } else {
      product.right = direction == Direction::forward ? columns_of(tap) : rows_of(tap);
    }
    for (std::int64_t pixel = 0; pixel < pixels(); ++pixel) {
      const std::int64_t x = input_of(pixel, tap);
      if (direction == Direction::weight_gradient) product.right.push_back(x < 0 ? nullptr : a_.data() + x);
      if (direction == Direction::weight_gradient || x < 0) continue;
      const std::int64_t y = pixel * shape_.out;
      product.left.push_back(a_.data() + (direction == Direction::forward ? x : y));
      product.sums.push_back(sums_.data() + (direction == Direction::forward ? y : x));
    }
    return product;
  }

  /// The weights of each output channel.
  std::vector<const float*> rows_of(int tap) const {
    std::vector<const float*> rows;
    for (int o = 0; o < shape_.out; ++o) rows.push_back(b_.data() + weights_of(o, tap));
    return rows;
  }

  /// The weights of each input channel, which it brings together.
  std::vector<const float*> columns_of(int tap) {
    turned_.resize(static_cast<std::size_t>(shape_.in) * static_cast<std::size_t>(shape_.out));
    std::vector<const float*> rows;
    for (int i = 0; i < shape_.in; ++i) {
      float* const row = turned_.data() + std::int64_t{i} * shape_.out;
      for (int o = 0; o < shape_.out; ++o) row[o] = b_[static_cast<std::size_t>(weights_of(o, tap) + i)];
      rows.push_back(row);
    }
    return rows;
  }

  const ConvolutionShape shape_;
  const std::int64_t images_;
  const std::vector<float> a_;
  const std::vector<float> b_;
  std::vector<float> turned_;
  std::vector<double> sums_;
};

template <typename T>
void convolve_as(const ConvolutionCall& call) {
  const ConvolutionShape& s = call.shape;
  if (s.side == 1 && s.kernel == 1) return multiply_by_definition(product_of(call));
  const auto floats = [](const void* from, std::int64_t count) {
    std::vector<float> result(static_cast<std::size_t>(count));
    std::transform(static_cast<const T*>(from), static_cast<const T*>(from) + count, result.begin(),
                   [](T value) { return to_float(value); });
    return result;
  };
  const std::int64_t xs = call.images * s.side * s.side * s.in;
  const std::int64_t ys = call.images * s.out_side() * s.out_side() * s.out;
  const std::int64_t ws = std::int64_t{s.out} * s.kernel * s.kernel * s.in;
  HostConvolution convolution(call, floats(call.a, call.direction == Direction::input_gradient ? ys : xs),
                              floats(call.b, call.direction == Direction::weight_gradient ? ys : ws));
  const std::vector<double> sums = convolution.compute(call.direction);
  std::transform(sums.begin(), sums.end(), static_cast<T*>(call.result),
                 [](double sum) { return from_float<T>(static_cast<float>(sum)); });
}

inline void convolve_by_definition(const ConvolutionCall& call) {
  switch (call.element) {
    case Element::f32:
      return convolve_as<float>(call);
    case Element::bf16:
      return convolve_as<Bf16>(call);
    case Element::f16:
      return convolve_as<F16>(call);
  }
}

}  // namespace muster::nn::gpu
