// SPDX-License-Identifier: Apache-2.0
// Sums over the threads of a block, in a fixed order.
#pragma once

#include "worker_sdk/nn/gpu/kernels/kernel.hpp"

#include <cstddef>

namespace muster::nn::gpu {

/// Each thread puts its own sums into a part of the body; kSteps parts that call step(), from 1, follow. Then
/// thread 0 finds the totals in sums[...][0].
template <std::size_t kCount>
struct BlockSums {
  static constexpr int kSteps = 8;
  static_assert(1 << kSteps == kBlockThreads);

  double sums[kCount][kBlockThreads];

  MUSTER_HD void step(int step, int thread) {
    const int half = kBlockThreads >> step;
    if (thread >= half) return;
    for (std::size_t i = 0; i < kCount; ++i) sums[i][thread] += sums[i][thread + half];
  }
};

}  // namespace muster::nn::gpu
