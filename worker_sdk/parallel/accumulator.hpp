// SPDX-License-Identifier: Apache-2.0
// Floats of micro-batches that wait for the last one of their step.
#pragma once

#include "worker_sdk/parallel/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::parallel {

enum class SumOrder : std::uint8_t {
  sequence,  ///< (g0 + g1) + g2 + ...: one arena
  tree,      ///< ((g0 + g1) + (g2 + g3)) + ...: a binary counter of arenas, one for each of its digits
};

/// Sums arenas, one range at a time: on a host a range is worked on while it is still in the processor's
/// cache. It remembers nothing of the step: a recorded step is replayed without it. One thread.
class Accumulator {
 public:
  /// `memory`, which outlives it, holds what waits; it is taken when it is first needed, or by reserve().
  /// `what` it is goes into an error.
  Accumulator(Memory& memory, std::size_t elements, SumOrder order, const char* what);

  /// Takes the memory for steps of so many micro-batches.
  void reserve(int micro_batches);

  /// The range of `count` floats at `values`, which lies at `offset` in the arena, of micro-batch `place` (0
  /// is the first of a step), which is not the last.
  void add(unsigned place, const float* values, std::size_t offset, std::size_t count);

  /// Adds what waits to the same range of the last micro-batch, which is number `place`.
  void fold_into(unsigned place, float* values, std::size_t offset, std::size_t count) const;

  std::size_t bytes() const { return levels_.size() * elements_ * sizeof(float); }

 private:
  void take_levels(std::size_t count);

  Memory& memory_;
  const std::size_t elements_;
  const SumOrder order_;
  const char* const what_;
  /// Level i holds the sum of 2^i micro-batches while digit i of their number is one (order tree); level 0
  /// holds all (order sequence).
  std::vector<float*> levels_;
};

}  // namespace muster::parallel
