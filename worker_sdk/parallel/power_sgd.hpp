// SPDX-License-Identifier: Apache-2.0
// Sums gradients as matrices of low rank.
#pragma once

#include "worker_sdk/parallel/bucket_hook.hpp"

namespace muster {

struct PowerSgdOptions {
  /// The columns of the two factors that travel instead of a matrix; more columns are more exact.
  int rank = 2;
  /// Steps with plain all_reduce before compression begins.
  std::int64_t start_step = 10;
  /// The largest share of a matrix's elements that its factors may have; otherwise it is not compressed.
  double largest_share = 0.5;
  /// Seed of the first factors; they are the same on all ranks.
  std::uint64_t seed = 0;
};

/// Makes a hook for low-rank gradients: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient
/// Compression for Distributed Optimization", NeurIPS 2019, algorithms 1 and 2, with warm start and error
/// feedback. A parameter is a matrix of its first extent by all others; parameters that are no matrices
/// travel whole. Each rank adds the part that a step leaves out to its next gradient, in units of the mean
/// gradient, so that uneven batches have the right weight. State: "powersgd.q" (factors, the same on all
/// ranks), "powersgd.error" (differs by rank; an arena with the offsets of the gradients), "powersgd.step"
/// (one number). Throws Error (invalid_argument) for options out of range.
std::unique_ptr<BucketHook> make_power_sgd_hook(const PowerSgdOptions& options = {});

}  // namespace muster
