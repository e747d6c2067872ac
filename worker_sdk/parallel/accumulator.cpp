// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/accumulator.hpp"

#include "rendezvous/base/invariant.hpp"

#include <bit>

namespace muster::parallel {

Accumulator::Accumulator(Memory& memory, std::size_t elements, SumOrder order, const char* what)
    : memory_(memory), elements_(elements), order_(order), what_(what) {}

void Accumulator::reserve(int micro_batches) {
  const auto last = static_cast<unsigned>(micro_batches - 1);
  take_levels(order_ == SumOrder::tree ? static_cast<std::size_t>(std::bit_width(last)) : (last > 0 ? 1 : 0));
}

void Accumulator::take_levels(std::size_t count) {
  while (levels_.size() < count) levels_.push_back(memory_.allocate(elements_, what_));
}

void Accumulator::add(unsigned place, const float* values, std::size_t offset, std::size_t count) {
  MUSTER_ASSERT(offset + count <= elements_, "a micro-batch adds within the arena");
  const unsigned free_level = order_ == SumOrder::tree ? static_cast<unsigned>(std::countr_one(place)) : 0U;
  take_levels(free_level + 1);
  float* const target = levels_[free_level] + offset;
  const float* sum = values;
  if (order_ == SumOrder::sequence && place > 0) return memory_.add(target, sum, target, count);
  for (unsigned level = 0; level < free_level; ++level) {
    memory_.add(levels_[level] + offset, sum, target, count);
    sum = target;
  }
  if (sum != target) memory_.copy(target, sum, count);
}

void Accumulator::fold_into(unsigned place, float* values, std::size_t offset, std::size_t count) const {
  const unsigned occupied = order_ == SumOrder::tree ? place : (place > 0 ? 1U : 0U);
  for (unsigned level = 0; level < levels_.size(); ++level)
    if ((occupied >> level & 1U) != 0) memory_.add(levels_[level] + offset, values, values, count);
}

}  // namespace muster::parallel
