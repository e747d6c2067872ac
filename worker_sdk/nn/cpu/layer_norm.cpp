// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/layer_norm.hpp"

#include "worker_sdk/nn/cpu/pieces.hpp"

namespace muster::nn::cpu {
namespace {

/// Adds up the parts' sums in turn.
void add_parts(const std::vector<float>& sums, std::size_t parts, std::size_t width, float* to) {
  for (std::size_t c = 0; c < width; ++c) {
    double sum = 0;
    for (std::size_t p = 0; p < parts; ++p) sum += static_cast<double>(sums[p * width + c]);
    to[c] = static_cast<float>(sum);
  }
}

/// Calls body(part, first row, rows of the part) for each part, on all threads.
template <typename Body>
void each_part(std::size_t rows, const Body& body) {
  const std::size_t parts = partial_sums(rows);
  each(parts, [&](std::size_t p) {
    const std::size_t first = rows * p / parts;
    body(p, first, rows * (p + 1) / parts - first);
  });
}

}  // namespace

LayerNorm::LayerNorm(Room& room, std::int64_t tokens, std::int64_t width)
    : shape_(tokens, width), moments_(room, shape_.tokens * 2 * sizeof(float)) {
  room.add(*this);
}

Workspace LayerNorm::workspace() const {
  return {(scale_sums_.capacity() + shift_sums_.capacity()) * sizeof(float), 0};
}

Workspace LayerNorm::workspace_for(std::span<const BatchSize> batches) const {
  const std::size_t rows = static_cast<std::size_t>(largest(batches, true)) * shape_.tokens;
  return {2 * partial_sums(rows) * shape_.width * sizeof(float), 0};
}

void LayerNorm::bind(const ParameterSlot& scale, const ParameterSlot& shift) {
  scale_ = scale;
  shift_ = shift;
}

NormRows LayerNorm::part(std::size_t rows) const {
  return {rows, shape_.width, scale_.value, shift_.value};
}

void LayerNorm::forward(const float* x, std::int64_t rows, float* y) const {
  float* const moments = moments_.data();
  each_part(static_cast<std::size_t>(rows), [&](std::size_t, std::size_t first, std::size_t count) {
    const std::size_t at = first * shape_.width;
    row_kernels().norm(part(count), x + at, y + at, moments + 2 * first);
  });
}

void LayerNorm::backward(const float* x, const float* dy, std::int64_t rows, float* dx) {
  if (rows == 0) return;
  const std::size_t parts = partial_sums(static_cast<std::size_t>(rows));
  const std::size_t width = shape_.width;
  scale_sums_.resize(parts * width);
  shift_sums_.resize(parts * width);
  const float* const moments = moments_.data();
  each_part(static_cast<std::size_t>(rows), [&](std::size_t p, std::size_t first, std::size_t count) {
    const std::size_t at = first * width;
    row_kernels().norm_backward(part(count), x + at, dy + at, moments + 2 * first, dx + at,
                                &scale_sums_[p * width], &shift_sums_[p * width]);
  });
  add_parts(scale_sums_, parts, width, scale_.gradient);
  add_parts(shift_sums_, parts, width, shift_.gradient);
}

}  // namespace muster::nn::cpu
