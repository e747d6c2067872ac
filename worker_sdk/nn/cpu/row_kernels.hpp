// SPDX-License-Identifier: Apache-2.0
// The loops over rows of floats: activations, layer norm, attention, sums, and linear layers whose weights
// are larger than a cache.
#pragma once

#include <cstddef>

namespace muster::nn::cpu {

/// The normalisation of rows of `width` floats.
struct NormRows {
  std::size_t rows = 0;
  std::size_t width = 0;
  const float* scale = nullptr;
  const float* shift = nullptr;
};

/// One head of one sample. Queries, keys and values lie in one row for each token.
struct HeadRows {
  std::size_t tokens = 0;
  std::size_t width = 0;    ///< of a head
  std::size_t spacing = 0;  ///< from a query to its key, and from a key to its value: the width of all heads
  std::size_t pitch = 0;    ///< from a token to the next: three times that
  float scale = 1;          ///< of the products of queries and keys
};

/// Results of a linear layer: so many of its outputs for so many samples.
struct PanelProduct {
  std::size_t outputs = 0;  ///< at most kPanelOutputs
  std::size_t samples = 0;  ///< at most kPanelSamples
  std::size_t depth = 0;    ///< inputs of the layer
  const float* weights = nullptr;
  const float* bias = nullptr;    ///< may be null
  const float* turned = nullptr;  ///< the samples, as `turn` leaves them
  float* y = nullptr;
  std::size_t pitch = 0;  ///< of y: outputs of the layer
};

inline constexpr std::size_t kPanelOutputs = 32;
inline constexpr std::size_t kPanelSamples = 64;

/// Results may lie where their inputs are unless it is said otherwise.
struct RowKernels {
  /// y = max(0, x), where what is not a number stays so.
  void (*relu)(const float* x, std::size_t count, float* y);
  /// dx = y > 0 ? dy : 0
  void (*relu_backward)(const float* y, const float* dy, std::size_t count, float* dx);
  /// y = x * Phi(x), with the distribution function Phi of the standard normal distribution: Hendrycks and
  /// Gimpel, "Gaussian Error Linear Units", 2016.
  void (*gelu)(const float* x, std::size_t count, float* y);
  void (*gelu_backward)(const float* x, const float* dy, std::size_t count, float* dx);
  /// y = a + b
  void (*add)(const float* a, const float* b, std::size_t count, float* y);
  /// y = factor * sum of `rows` rows of `width` floats that lie `pitch` apart. Not in place.
  void (*sum_rows)(const float* x, std::size_t rows, std::size_t width, std::size_t pitch, float factor,
                   float* y);
  /// Each of `rows` rows = factor * x. Not in place.
  void (*repeat_row)(const float* x, std::size_t rows, std::size_t width, float factor, float* y);

  /// y = (x - mean) / sqrt(variance + 1e-5) * scale + shift by row. `moments` gets mean and inverse deviation
  /// of each.
  void (*norm)(const NormRows&, const float* x, float* y, float* moments);
  /// dx, and the sums over the rows of dy * (x - mean) / deviation and of dy.
  void (*norm_backward)(const NormRows&, const float* x, const float* dy, const float* moments, float* dx,
                        float* scale_sums, float* shift_sums);

  /// Columns of `count` rows as rows of `padded` numbers (a multiple of kLanes), zeros behind them.
  void (*turn)(const float* x, std::size_t pitch, std::size_t count, std::size_t width, std::size_t padded,
               float* to);
  void (*panel_product)(const PanelProduct&);

  /// y = softmax(scale * q k^T) v, rows of y being `spacing` apart. `levels` gets for each query the
  /// logarithm of the sum of the exponentials.
  void (*attend)(const HeadRows&, const float* q, float* y, float* levels, float* scratch);
  /// The gradients of q, k and v, which lie as they do.
  void (*attend_backward)(const HeadRows&, const float* q, const float* dy, const float* levels, float* dq,
                          float* scratch);
  /// Floats of scratch that either of them needs, which begin on a boundary of 64 bytes.
  std::size_t (*attention_scratch)(const HeadRows&);
};

/// The kernels with the best instructions that may be used here (at_least()).
const RowKernels& row_kernels();

namespace kernels {
const RowKernels& base_rows();
const RowKernels& avx2_rows();
const RowKernels& avx512_rows();
}  // namespace kernels

}  // namespace muster::nn::cpu
