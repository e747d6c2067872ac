// SPDX-License-Identifier: Apache-2.0
// Gradients of micro-batches that wait for the last one of their step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace muster::parallel {

/// An array of floats, zero and aligned to 64 bytes.
class Floats {
 public:
  Floats() = default;
  explicit Floats(std::size_t count);

  float* data() const { return memory_.get(); }

 private:
  struct Delete {
    void operator()(float* memory) const;
  };

  std::unique_ptr<float[], Delete> memory_;
};

enum class SumOrder : std::uint8_t {
  sequence,  ///< (g0 + g1) + g2 + ...: one arena
  tree,      ///< ((g0 + g1) + (g2 + g3)) + ...: a binary counter of arenas, one for each of its digits
};

/// Sums arenas, one range at a time: a range is worked on while it is still in the processor's cache. Memory
/// is taken when it is first needed. One thread.
class Accumulator {
 public:
  Accumulator(std::size_t elements, SumOrder order) : elements_(elements), order_(order) {}

  /// Gradients of the micro-batch that is being computed: each range once, then count_micro_batch().
  void add(const float* gradients, std::size_t offset, std::size_t count);
  void count_micro_batch();

  /// Adds what waits to the last micro-batch's gradients of this range. Each range once, then clear().
  void fold_into(float* gradients, std::size_t offset, std::size_t count) const;

  void clear() { micro_batches_ = 0; }

  unsigned micro_batches() const { return micro_batches_; }

 private:
  const std::size_t elements_;
  const SumOrder order_;
  /// Level i holds the sum of 2^i micro-batches while digit i of `micro_batches_` is one (order tree); level
  /// 0 holds all (order sequence).
  std::vector<Floats> levels_;
  unsigned micro_batches_ = 0;

  unsigned occupied() const {
    return order_ == SumOrder::tree ? micro_batches_ : (micro_batches_ > 0 ? 1U : 0U);
  }
};

/// result[i] = a[i] + b[i]; the result may be either.
void add_floats(const float* a, const float* b, float* result, std::size_t count);

}  // namespace muster::parallel
