// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/deterministic.hpp"

#include "muster/error.hpp"
#include "worker_sdk/parallel/memory.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace muster {
namespace {

using parallel::add_floats;

/// Sums `number` (a power of two) parts of `count` floats each, which lie one after the other, as a subtree
/// into the first part.
void sum_parts(float* parts, std::size_t number, std::size_t count) {
  for (std::size_t distance = 1; distance < number; distance *= 2)
    for (std::size_t i = 0; i + distance < number; i += 2 * distance)
      add_floats(parts + i * count, parts + (i + distance) * count, parts + i * count, count);
}

/// Sums by the tree: each rank gets one part of every rank's floats, sums it, and gives the sum to all.
class TreeHook final : public BucketHook {
 public:
  std::string describe() const override { return "a fixed binary tree"; }

  void prepare(ProcessGroup& group, std::span<const BucketView> buckets) override {
    const auto ranks = static_cast<std::size_t>(group.size());
    // a + b is the same in either order, so with two ranks every reduction is the tree.
    if (ranks <= 2) return;
    std::size_t largest = 0;
    for (const BucketView& bucket : buckets) largest = std::max(largest, bucket.elements);
    const std::size_t padded = (largest + ranks - 1) / ranks * ranks;
    given_ = static_cast<float*>(group.allocate(padded * sizeof(float)));
    received_ = static_cast<float*>(group.allocate(padded * sizeof(float)));
  }

  void reduce(ProcessGroup& group, const BucketView& bucket) override {
    float* const values = bucket.gradients;
    const std::size_t count = bucket.elements;
    if (group.size() <= 2) return group.all_reduce(values, count, DataType::f32, ReduceOp::sum);
    const auto ranks = static_cast<std::size_t>(group.size());
    const std::size_t part = (count + ranks - 1) / ranks;
    // Buckets are whole cache lines, which 2, 4, 8 and 16 ranks divide; then neither padding nor a copy is
    // needed.
    const bool divides = part * ranks == count;
    float* const whole = divides ? values : given_;
    if (!divides) {
      std::copy_n(values, count, given_);
      std::fill(given_ + count, given_ + part * ranks, 0.0F);
    }
    group.run(operation_of(Collective::all_to_all, part, DataType::f32, whole, received_));
    sum_parts(received_, ranks, part);
    group.run(operation_of(Collective::all_gather, part, DataType::f32, received_, whole));
    if (!divides) std::copy_n(given_, count, values);
  }

 private:
  float* given_ = nullptr;  ///< used only for buckets that the ranks do not divide
  float* received_ = nullptr;
};

bool is_power_of_two(int value) {
  return value > 0 && std::has_single_bit(static_cast<unsigned>(value));
}

}  // namespace

MicroBatches share_micro_batches(int total, const ProcessGroup* group) {
  const int ranks = group == nullptr ? 1 : group->size();
  if (!is_power_of_two(total) || !is_power_of_two(ranks) || ranks > total)
    throw Error(ErrorCode::invalid_argument,
                "a deterministic world of " + std::to_string(ranks) + " ranks with " + std::to_string(total) +
                    " micro-batches a step; both are powers of two, and there is at least one micro-batch "
                    "for each rank");
  MicroBatches plan;
  plan.total = total;
  plan.count = total / ranks;
  plan.first = group == nullptr ? 0 : group->rank() * plan.count;
  return plan;
}

std::unique_ptr<BucketHook> make_tree_hook() {
  return std::make_unique<TreeHook>();
}

ReducerOptions parallel::with_tree(ReducerOptions options) {
  if (options.deterministic_micro_batches == 0) return options;
  if (options.hook != nullptr)
    throw Error(ErrorCode::invalid_argument, "a deterministic world has a fixed tree of sums and " +
                                                 options.hook->describe() +
                                                 " has another; leave out one of the two");
  options.hook = make_tree_hook();
  return options;
}

}  // namespace muster
