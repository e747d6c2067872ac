// SPDX-License-Identifier: Apache-2.0
// The bodies of the map kernels, for the instruction set of the including file.
#pragma once

#include "worker_sdk/nn/cpu/group_loops.hpp"
#include "worker_sdk/nn/cpu/map_kernels.hpp"
#include "worker_sdk/nn/cpu/map_vectors.hpp"
#include "worker_sdk/nn/cpu/pool_loops.hpp"

namespace muster::nn::cpu {
namespace {

/// A walk over a strip by columns of one vector, four rows at a time. It and Wide give sums enough
/// accumulators in either layout.
struct Narrow {
  static constexpr std::size_t kColumn = 1;
  static constexpr std::size_t kRows = 4;
};

struct Wide {
  static constexpr std::size_t kColumn = 4;
  static constexpr std::size_t kRows = 1;
};

/// Calls body(slot, lane offset, element offset) for every vector of a column; `slot` numbers accumulators.
template <typename Walk, typename Body>
[[gnu::always_inline]] inline void each_vector(const Strip& strip, std::size_t column, const Body& body) {
  std::size_t row = 0;
  for (; row + Walk::kRows <= strip.rows; row += Walk::kRows)
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Walk::kRows; ++r)
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Walk::kColumn; ++v)
        body(r * Walk::kColumn + v, v, (row + r) * strip.width + column + v * kLanes);
  for (; row < strip.rows; ++row)
#pragma GCC unroll 4
    for (std::size_t v = 0; v < Walk::kColumn; ++v) body(v, v, row * strip.width + column + v * kLanes);
}

/// Accumulators of one column.
template <typename Walk>
struct Sums {
  Floats slot[4] = {};

  [[gnu::always_inline]] void write(float* to) const {
    if constexpr (Walk::kColumn == 1) {
      store(to, (slot[0] + slot[1]) + (slot[2] + slot[3]));
    } else {
#pragma GCC unroll 4
      for (std::size_t v = 0; v < 4; ++v) store(to + v * kLanes, slot[v]);
    }
  }
};

/// One vector per channel group of the column.
template <typename Walk>
[[gnu::always_inline]] inline void load_column(const float* from, Floats (&to)[Walk::kColumn]) {
#pragma GCC unroll 4
  for (std::size_t v = 0; v < Walk::kColumn; ++v) to[v] = load(from + v * kLanes);
}

template <typename Stored>
[[gnu::always_inline]] inline Floats gradient_at(const BackwardArgs& args, std::size_t at) {
  Floats g = load(static_cast<const Stored*>(args.dy) + at);
  if (args.dy2 != nullptr) g += load(static_cast<const Stored*>(args.dy2) + at);
  if (args.signs != nullptr) g = masked(g, args.signs[at / kLanes]);
  return g;
}

template <typename Stored, typename Walk>
void statistics_of(const Strip& strip, const void* map, float* sum, float* squares) {
  const auto* x = static_cast<const Stored*>(map);
  const float per_row = 1.0F / static_cast<float>(strip.rows);
  for (std::size_t column = 0; column < strip.width; column += Walk::kColumn * kLanes) {
    Sums<Walk> total;
    each_vector<Walk>(strip, column, [&](std::size_t slot, std::size_t, std::size_t at) {
      total.slot[slot] += load(x + at);
    });
    total.write(sum + column);
    Floats mean[Walk::kColumn];
    load_column<Walk>(sum + column, mean);
#pragma GCC unroll 4
    for (Floats& value : mean) value *= per_row;
    Sums<Walk> spread;
    each_vector<Walk>(strip, column, [&](std::size_t slot, std::size_t v, std::size_t at) {
      const Floats distance = load(x + at) - mean[v];
      spread.slot[slot] += distance * distance;
    });
    spread.write(squares + column);
  }
}

template <typename Stored, typename Walk>
void forward_of(const Strip& strip, const ForwardArgs& args) {
  const auto* x = static_cast<const Stored*>(args.x);
  const auto* addend = static_cast<const Stored*>(args.addend);
  auto* y = static_cast<Stored*>(args.y);
  for (std::size_t column = 0; column < strip.width; column += Walk::kColumn * kLanes) {
    Floats scale[Walk::kColumn], shift[Walk::kColumn], addend_scale[Walk::kColumn];
    load_column<Walk>(args.scale + column, scale);
    load_column<Walk>(args.shift + column, shift);
#pragma GCC unroll 4
    for (Floats& value : addend_scale) value = all(1.0F);
    if (args.addend_scale != nullptr) {
      load_column<Walk>(args.addend_scale + column, addend_scale);
#pragma GCC unroll 4
      for (std::size_t v = 0; v < Walk::kColumn; ++v)
        shift[v] += load(args.addend_shift + column + v * kLanes);
    }
    each_vector<Walk>(strip, column, [&](std::size_t, std::size_t v, std::size_t at) {
      Floats value = load(x + at) * scale[v] + shift[v];
      if (addend != nullptr) value += load(addend + at) * addend_scale[v];
      if (args.signs != nullptr) args.signs[at / kLanes] = signs_of(value);
      store(y + at, positive(value));
    });
  }
}

template <typename Stored, typename Walk>
void backward_sums_of(const Strip& strip, const BackwardArgs& args, const float* mean, float* sum,
                      float* products, void* out) {
  const auto* x = static_cast<const Stored*>(args.x);
  for (std::size_t column = 0; column < strip.width; column += Walk::kColumn * kLanes) {
    Floats centre[Walk::kColumn];
    load_column<Walk>(mean + column, centre);
    Sums<Walk> total, product;
    each_vector<Walk>(strip, column, [&](std::size_t slot, std::size_t v, std::size_t at) {
      const Floats g = gradient_at<Stored>(args, at);
      if (out != nullptr) store(static_cast<Stored*>(out) + at, g);
      total.slot[slot] += g;
      product.slot[slot] += g * (load(x + at) - centre[v]);
    });
    total.write(sum + column);
    product.write(products + column);
  }
}

template <typename Stored, typename Walk>
void backward_of(const Strip& strip, const BackwardArgs& args, const float* by_gradient, const float* by_x,
                 const float* constant, void* out) {
  const auto* x = static_cast<const Stored*>(args.x);
  auto* dx = static_cast<Stored*>(out);
  for (std::size_t column = 0; column < strip.width; column += Walk::kColumn * kLanes) {
    Floats a[Walk::kColumn], b[Walk::kColumn], c[Walk::kColumn];
    load_column<Walk>(by_gradient + column, a);
    load_column<Walk>(by_x + column, b);
    load_column<Walk>(constant + column, c);
    each_vector<Walk>(strip, column, [&](std::size_t, std::size_t v, std::size_t at) {
      store(dx + at, gradient_at<Stored>(args, at) * a[v] + (load(x + at) * b[v] + c[v]));
    });
  }
}

bool is_wide(const Strip& strip) {
  return strip.width % (Wide::kColumn * kLanes) == 0;
}

template <typename Stored>
struct Entry {
  static void statistics(const Strip& s, const void* x, float* sum, float* squares) {
    (is_wide(s) ? statistics_of<Stored, Wide> : statistics_of<Stored, Narrow>)(s, x, sum, squares);
  }

  static void forward(const Strip& s, const ForwardArgs& args) {
    (is_wide(s) ? forward_of<Stored, Wide> : forward_of<Stored, Narrow>)(s, args);
  }

  static void backward_sums(const Strip& s, const BackwardArgs& args, const float* mean, float* sum,
                            float* products, void* out) {
    (is_wide(s) ? backward_sums_of<Stored, Wide> : backward_sums_of<Stored, Narrow>)(s, args, mean, sum,
                                                                                     products, out);
  }

  static void backward(const Strip& s, const BackwardArgs& args, const float* by_gradient, const float* by_x,
                       const float* constant, void* dx) {
    (is_wide(s) ? backward_of<Stored, Wide> : backward_of<Stored, Narrow>)(s, args, by_gradient, by_x,
                                                                           constant, dx);
  }

  static constexpr MapKernels kTable = {
      statistics, forward, backward_sums, backward, kPoolKernels<Stored>, kGroupKernels<Stored>};
};

}  // namespace
}  // namespace muster::nn::cpu
