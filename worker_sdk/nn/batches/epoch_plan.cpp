// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/batches/epoch_plan.hpp"

#include "rendezvous/base/philox.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace muster::train {
namespace {

using Indices = std::vector<std::uint32_t>;

/// Keeps the streams of epochs apart from those of other users of the same seed.
constexpr std::uint64_t kEpochStreams = std::uint64_t{0x5A} << 56;

/// Every rank takes the samples at its rank, its rank + ranks, ... of a step, in micro-batches one after the
/// other.
void append_strided(std::span<const std::uint32_t> step, const StepShape& shape,
                    std::vector<Indices>& batches) {
  const std::size_t first = batches.size();
  batches.resize(first + static_cast<std::size_t>(shape.accumulation));
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  std::size_t taken = 0;
  for (std::size_t i = static_cast<std::size_t>(shape.rank); i < step.size(); i += ranks, ++taken)
    batches[first + taken / shape.batch_size].push_back(step[i]);
}

void append_fixed(std::span<const std::uint32_t> step, const MicroBatches& fixed,
                  std::vector<Indices>& batches) {
  for (int k = fixed.first; k < fixed.first + fixed.count; ++k) {
    const auto part = fixed.part(step, k);
    batches.emplace_back(part.begin(), part.end());
  }
}

}  // namespace

Indices epoch_order(std::size_t samples, std::uint64_t seed, int epoch) {
  Indices order(samples);
  std::iota(order.begin(), order.end(), 0U);
  RandomStream random(seed, kEpochStreams | static_cast<std::uint64_t>(epoch));
  for (std::size_t i = samples; i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  return order;
}

std::vector<Indices> plan_epoch(std::span<const std::uint32_t> order, const StepShape& shape) {
  std::vector<Indices> batches;
  const std::size_t global = shape.global_batch();
  for (std::size_t begin = 0; begin < order.size(); begin += global) {
    const auto step = order.subspan(begin, std::min(global, order.size() - begin));
    if (shape.fixed)
      append_fixed(step, *shape.fixed, batches);
    else
      append_strided(step, shape, batches);
  }
  return batches;
}

std::vector<Indices> plan_evaluation(std::size_t samples, const StepShape& shape) {
  Indices all(samples);
  for (std::size_t i = 0; i < samples; ++i) all[i] = static_cast<std::uint32_t>(i);
  StepShape plain = shape;
  // There `batch_size` is all that a rank has of a step, one micro-batch after the other: a network has room
  // for one of them.
  if (shape.fixed)
    plain.batch_size = steps_for(shape.global_batch(), static_cast<std::size_t>(shape.fixed->total));
  plain.fixed.reset();
  plain.accumulation = 1;
  return plan_epoch(all, plain);
}

}  // namespace muster::train
