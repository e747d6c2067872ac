// SPDX-License-Identifier: Apache-2.0
// Gives the same bits on 1, 2, 4, 8 ranks. The batch of a step, of all ranks, is cut into M micro-batches
// (the same M for every world); each is computed on its own, and their gradients are summed by one fixed
// binary tree: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). Rank r of W computes the micro-batches [r M / W, (r
// + 1) M / W): a subtree. Since a + b = b + a, every rank gets the same bits. W and M are powers of two, W at
// most M.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/accumulator.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace muster {

/// The share of one rank in the micro-batches of a step.
struct MicroBatches {
  int total = 8;  ///< number of micro-batches in a step (M)
  int first = 0;  ///< first micro-batch of this rank
  int count = 8;  ///< number of this rank's micro-batches

  /// The part of a step's batch of all ranks (indices in the order of the epoch) that micro-batch `k` (0 ..
  /// total - 1) computes, which depends on k and `total` alone. If the batch does not divide evenly, the
  /// first parts have one more index; a part may be empty.
  template <typename T>
  std::span<T> part(std::span<T> batch, int k) const {
    const std::size_t first_one = begin(batch.size(), k);
    return batch.subspan(first_one, begin(batch.size(), k + 1) - first_one);
  }

  /// The place in the batch, of `size` samples, where the part of micro-batch `k` begins.
  std::size_t begin(std::size_t size, int k) const {
    const std::size_t parts = static_cast<std::size_t>(total);
    const std::size_t i = static_cast<std::size_t>(k);
    return i * (size / parts) + std::min(i, size % parts);
  }
};

/// The share of this rank. Throws Error (invalid_argument) if `total` or the number of ranks is no power of
/// two, or there are more ranks than micro-batches. `group` may be null: a world of one.
MicroBatches share_micro_batches(int total, const ProcessGroup* group);

/// Makes the hook that sums buckets over the ranks by the tree above, for a Reducer with
/// `deterministic_micro_batches`.
std::unique_ptr<BucketHook> make_tree_hook();

namespace parallel {

/// The options, with the hook of the tree if a deterministic world is wanted. Throws Error (invalid_argument)
/// if they have another hook.
ReducerOptions with_tree(ReducerOptions options);

/// The order in which micro-batches are added.
inline SumOrder sum_order(const ReducerOptions& options) {
  return options.deterministic_micro_batches > 0 ? SumOrder::tree : SumOrder::sequence;
}

}  // namespace parallel

}  // namespace muster
