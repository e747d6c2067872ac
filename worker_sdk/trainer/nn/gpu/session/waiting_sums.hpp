// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/parallel/accumulator.hpp"
#include "worker_sdk/trainer/nn/gpu/ops.hpp"

#include <cstddef>
#include <vector>

namespace muster::nn::gpu {

/// Floats of micro-batches that wait on a device for the last one of their step, in the order of sums that
/// parallel::Accumulator has, and with its bits. All memory is taken at the start, since a step may be
/// recorded. One thread.
class WaitingSums {
 public:
  /// `micro_batches` of a step, at most. `ops` outlives it.
  WaitingSums(Ops& ops, std::size_t elements, parallel::SumOrder order, int micro_batches, const char* what);

  /// Puts the adding of a micro-batch that is not the last onto the stream. `place` is its number in the
  /// step; with SumOrder::sequence every number above 0 means the same.
  void add(unsigned place, const float* values);

  /// Puts onto the stream that what waits is added to the floats [begin, end) of the last micro-batch, whose
  /// number is `place`.
  void fold_into(unsigned place, std::size_t begin, std::size_t end, float* values);

  std::size_t bytes() const { return levels_.size() * elements_ * sizeof(float); }

 private:
  Ops& ops_;
  const std::size_t elements_;
  const bool tree_;
  std::vector<float*> levels_;
};

}  // namespace muster::nn::gpu
