// SPDX-License-Identifier: Apache-2.0
// Work in pieces that do not depend on the number of threads, so that results do not, either.
#pragma once

#include <algorithm>
#include <cstddef>

namespace muster::nn::cpu {

/// Calls body(number) for numbers below `count`, on all threads. It throws nothing.
template <typename Body>
void each(std::size_t count, const Body& body) {
#pragma omp parallel for schedule(static) if (count > 1)
  for (std::size_t i = 0; i < count; ++i) body(i);
}

/// Calls body(first, length) for the pieces of `count` elements, on all threads.
template <typename Body>
void each_piece(std::size_t count, const Body& body) {
  constexpr std::size_t kPiece = 8192;
  each((count + kPiece - 1) / kPiece,
       [&](std::size_t p) { body(p * kPiece, std::min(kPiece, count - p * kPiece)); });
}

/// How many parts of `rows` rows have sums of their own, which are added up in turn.
inline std::size_t partial_sums(std::size_t rows) {
  constexpr std::size_t kMost = 64;
  return std::min(rows, kMost);
}

}  // namespace muster::nn::cpu
