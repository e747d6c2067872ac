// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/deterministic.hpp"

#include "muster/error.hpp"
#include "worker_sdk/parallel/accumulator.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace muster {
namespace {

using parallel::Accumulator;
using parallel::add_floats;
using parallel::SumOrder;

/// The subtree of `parts` (a power of two) parts of `count` floats each, one after the other, into the first.
void sum_parts(float* parts, std::size_t number, std::size_t count) {
  for (std::size_t distance = 1; distance < number; distance *= 2)
    for (std::size_t i = 0; i + distance < number; i += 2 * distance)
      add_floats(parts + i * count, parts + (i + distance) * count, parts + i * count, count);
}

/// Sums over the ranks by the tree: each rank gets one part of everybody's floats, sums it, and gives it to
/// all.
class TreeExchange {
 public:
  void prepare(ProcessGroup& group, std::size_t elements) {
    const auto ranks = static_cast<std::size_t>(group.size());
    // a + b is the same in either order: with two ranks every reduction is the tree.
    if (ranks <= 2) return;
    const std::size_t padded = (elements + ranks - 1) / ranks * ranks;
    given_ = static_cast<float*>(group.allocate(padded * sizeof(float)));
    received_ = static_cast<float*>(group.allocate(padded * sizeof(float)));
  }

  void sum(ProcessGroup& group, float* values, std::size_t count) {
    if (group.size() <= 2) return group.all_reduce(values, count, DataType::f32, ReduceOp::sum);
    const auto ranks = static_cast<std::size_t>(group.size());
    const std::size_t part = (count + ranks - 1) / ranks;
    // Buckets are whole cache lines, which 2, 4, 8 and 16 ranks divide: then no padding, and no copy.
    const bool divides = part * ranks == count;
    float* const whole = divides ? values : given_;
    if (!divides) {
      std::copy_n(values, count, given_);
      std::fill(given_ + count, given_ + part * ranks, 0.0F);
    }
    run(group, Collective::all_to_all, part, whole, received_);
    sum_parts(received_, ranks, part);
    run(group, Collective::all_gather, part, received_, whole);
    if (!divides) std::copy_n(given_, count, values);
  }

 private:
  static void run(ProcessGroup& group, Collective collective, std::size_t count, const float* in,
                  float* out) {
    Operation operation;
    operation.call.collective = collective;
    operation.call.count = count;
    operation.call.type = DataType::f32;
    operation.in = in;
    operation.out = out;
    group.run(operation);
  }

  float* given_ = nullptr;  ///< only for what the ranks do not divide
  float* received_ = nullptr;
};

class TreeHook final : public BucketHook {
 public:
  std::string describe() const override { return "a fixed binary tree"; }

  void prepare(ProcessGroup& group, std::span<const BucketView> buckets) override {
    std::size_t largest = 0;
    for (const BucketView& bucket : buckets) largest = std::max(largest, bucket.elements);
    exchange_.prepare(group, largest);
  }

  void reduce(ProcessGroup& group, const BucketView& bucket) override {
    exchange_.sum(group, bucket.gradients, bucket.elements);
  }

 private:
  TreeExchange exchange_;
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

class TreeSum::Impl {
 public:
  Impl(const MicroBatches& plan, std::size_t elements, ProcessGroup* group)
      : count_(static_cast<unsigned>(plan.count)),
        elements_(elements),
        group_(group != nullptr && group->size() > 1 ? group : nullptr),
        waiting_(elements, SumOrder::tree),
        sum_(elements) {
    if (group_ != nullptr) exchange_.prepare(*group_, elements);
  }

  void add(std::span<const float> values) {
    if (values.size() != elements_ || added_ == count_)
      throw Error(ErrorCode::invalid_argument,
                  "a tree of " + std::to_string(count_) + " micro-batches with " + std::to_string(elements_) +
                      " values each was given one more, or " + std::to_string(values.size()) + " values");
    // The last one is not stored but carried up through all levels.
    if (++added_ < count_) {
      waiting_.add(values.data(), 0, elements_);
      waiting_.count_micro_batch();
    } else {
      std::copy(values.begin(), values.end(), sum_.data());
      waiting_.fold_into(sum_.data(), 0, elements_);
    }
  }

  void finish(std::span<float> sum) {
    if (added_ != count_ || sum.size() != elements_)
      throw Error(ErrorCode::invalid_argument, "a tree sum was finished after " + std::to_string(added_) +
                                                   " of " + std::to_string(count_) + " micro-batches");
    if (group_ != nullptr) exchange_.sum(*group_, sum_.data(), elements_);
    std::copy_n(sum_.data(), elements_, sum.begin());
    waiting_.clear();
    added_ = 0;
  }

 private:
  const unsigned count_;
  const std::size_t elements_;
  ProcessGroup* const group_;
  unsigned added_ = 0;
  Accumulator waiting_;
  parallel::Floats sum_;
  TreeExchange exchange_;
};

TreeSum::TreeSum(const MicroBatches& plan, std::size_t elements, ProcessGroup* group)
    : impl_(std::make_unique<Impl>(plan, elements, group)) {}

TreeSum::~TreeSum() = default;

void TreeSum::add(std::span<const float> values) {
  impl_->add(values);
}

void TreeSum::finish(std::span<float> sum) {
  impl_->finish(sum);
}

}  // namespace muster
