// SPDX-License-Identifier: Apache-2.0
// Sums floats of micro-batches (gradients, running statistics) until the last one of their step.
#pragma once

#include "worker_sdk/parallel/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::parallel {

enum class SumOrder : std::uint8_t {
  sequence,  ///< the sum (g0 + g1) + g2 + ..., which needs one arena
  tree,  ///< the sum ((g0 + g1) + (g2 + g3)) + ..., a binary counter with one arena for each of its digits
};

/// Sums arenas, one range at a time: on a host a range is worked on while it is still in the processor's
/// cache. It keeps no state of the step, so a recorded step can be replayed without it. One thread.
class Accumulator {
 public:
  /// `memory`, which outlives this object, holds the waiting sums; it is allocated when it is first needed,
  /// or by reserve(). `what` names it in an error.
  Accumulator(Memory& memory, std::size_t elements, SumOrder order, const char* what);

  /// Allocates the memory for steps of `micro_batches` micro-batches.
  void reserve(int micro_batches);

  /// Adds the range of `count` floats at `values`, which lies at `offset` in the arena, of micro-batch
  /// `place` (0 is the first of a step), which is not the last.
  void add(unsigned place, const float* values, std::size_t offset, std::size_t count);

  /// Adds the waiting sums to the same range of the last micro-batch, which is number `place`.
  void fold_into(unsigned place, float* values, std::size_t offset, std::size_t count) const;

  std::size_t bytes() const { return levels_.size() * elements_ * sizeof(float); }

 private:
  void take_levels(std::size_t count);

  Memory& memory_;
  const std::size_t elements_;
  const SumOrder order_;
  const char* const what_;
  /// The arenas: level i holds the sum of 2^i micro-batches while digit i of their number is one (order
  /// tree); level 0 holds the sum of all (order sequence).
  std::vector<float*> levels_;
};

}  // namespace muster::parallel
