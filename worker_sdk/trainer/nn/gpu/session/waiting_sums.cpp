// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/session/waiting_sums.hpp"

#include <bit>
#include <cstdint>

namespace muster::nn::gpu {
namespace {

ArenaRange range_of(std::size_t begin, std::size_t end) {
  return {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
}

}  // namespace

WaitingSums::WaitingSums(Ops& ops, std::size_t elements, parallel::SumOrder order, int micro_batches,
                         const char* what)
    : ops_(ops), elements_(elements), tree_(order == parallel::SumOrder::tree) {
  // A binary counter up to the number of the last micro-batch, or one sum of all before it.
  const auto last = static_cast<unsigned>(micro_batches - 1);
  levels_.resize(tree_ ? static_cast<std::size_t>(std::bit_width(last)) : (last > 0 ? 1U : 0U));
  for (float*& level : levels_)
    if (elements > 0) level = static_cast<float*>(ops.allocate(elements * sizeof(float), what));
}

void WaitingSums::add(unsigned place, const float* values) {
  const ArenaRange all = range_of(0, elements_);
  const auto free_level = tree_ ? static_cast<std::size_t>(std::countr_one(place)) : 0U;
  ops_.run(AddGradients{all, values, !tree_ && place > 0, levels_.at(free_level)});
  for (std::size_t level = 0; level < free_level; ++level)
    ops_.run(AddGradients{all, levels_[level], true, levels_[free_level]});
}

void WaitingSums::fold_into(unsigned place, std::size_t begin, std::size_t end, float* values) {
  const unsigned occupied = tree_ ? place : (place > 0 ? 1U : 0U);
  for (std::size_t level = 0; level < levels_.size(); ++level)
    if ((occupied >> level & 1U) != 0)
      ops_.run(AddGradients{range_of(begin, end), levels_[level], true, values});
}

}  // namespace muster::nn::gpu
