// SPDX-License-Identifier: Apache-2.0
// Layers over rows of floats that hold no parameters of their own, or one row of them for each token. `rows`
// is the number of rows, `batch` that of samples, with `tokens` rows each. One thread calls a layer.
#pragma once

#include "worker_sdk/nn/cpu/room.hpp"
#include "worker_sdk/nn/cpu/row_kernels.hpp"
#include "worker_sdk/nn/draw_bits.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::cpu {

/// Rows of one sample.
struct RowShape {
  RowShape(std::int64_t of_tokens, std::int64_t of_width)
      : tokens(static_cast<std::size_t>(of_tokens)), width(static_cast<std::size_t>(of_width)) {}

  std::size_t tokens = 0;
  std::size_t width = 0;

  std::size_t sample() const { return tokens * width; }

  std::size_t of_rows(std::int64_t rows) const { return static_cast<std::size_t>(rows) * width; }
};

/// y = max(0, x).
class Relu {
 public:
  Relu(Room&, std::int64_t tokens, std::int64_t width) : shape_(tokens, width) {}

  /// y may be x.
  void forward(const float* x, std::int64_t rows, float* y) const;
  /// From the result; dx may be dy or y.
  void backward(const float* y, const float* dy, std::int64_t rows, float* dx) const;

 private:
  const RowShape shape_;
};

/// y = x * Phi(x), by the error function and not by the tangent.
class Gelu {
 public:
  Gelu(Room&, std::int64_t tokens, std::int64_t width) : shape_(tokens, width) {}

  void forward(const float* x, std::int64_t rows, float* y) const;
  /// From the input; dx may be dy or x.
  void backward(const float* x, const float* dy, std::int64_t rows, float* dx) const;

 private:
  const RowShape shape_;
};

/// y = a + b, where y may be a or b.
class Sum {
 public:
  Sum(Room&, std::int64_t tokens, std::int64_t width) : shape_(tokens, width) {}

  void run(const float* a, const float* b, std::int64_t rows, float* y) const;

 private:
  const RowShape shape_;
};

/// y = x + p, a row of p for each token.
class Positions {
 public:
  Positions(Room&, std::int64_t tokens, std::int64_t width) : shape_(tokens, width) {}

  /// tokens x width.
  void bind(const ParameterSlot& positions) { positions_ = positions; }

  /// y may be x.
  void forward(const float* x, std::int64_t batch, float* y) const;
  /// Writes the gradient of p; that of x is dy.
  void backward(const float* dy, std::int64_t batch) const;

 private:
  const RowShape shape_;
  ParameterSlot positions_;
};

/// The mean of a sample's rows.
class TokenMean {
 public:
  TokenMean(Room&, std::int64_t tokens, std::int64_t width) : shape_(tokens, width) {}

  /// batch x width.
  void forward(const float* x, std::int64_t batch, float* y) const;
  void backward(const float* dy, std::int64_t batch, float* dx) const;

 private:
  const RowShape shape_;
};

/// Each element is 0 with the probability `share`, else scaled by 1 / (1 - share): see nn/draw_bits.hpp.
class Dropout {
 public:
  /// Throws Error (invalid_argument) unless 0 <= share < 1.
  Dropout(Room&, std::int64_t tokens, std::int64_t width, double share);

  /// `rows` are those of whole samples; y may be x.
  void forward(const float* x, std::int64_t rows, float* y, const DropoutKey& key) const;

  /// The same draws again; dx may be dy.
  void backward(const float* dy, std::int64_t rows, float* dx, const DropoutKey& key) const {
    forward(dy, rows, dx, key);
  }

 private:
  const RowShape shape_;
  const DropoutShare share_;
};

}  // namespace muster::nn::cpu
