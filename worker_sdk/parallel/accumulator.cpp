// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/accumulator.hpp"

#include "rendezvous/base/invariant.hpp"
#include "worker_sdk/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <new>

namespace muster::parallel {

Floats::Floats(std::size_t count) : memory_(new (std::align_val_t{64}) float[count]()) {}

void Floats::Delete::operator()(float* memory) const {
  ::operator delete[](memory, std::align_val_t{64});
}

void add_floats(const float* a, const float* b, float* result, std::size_t count) {
  const std::array<const std::byte*, 2> sources = {reinterpret_cast<const std::byte*>(a),
                                                   reinterpret_cast<const std::byte*>(b)};
  const std::array<std::byte*, 1> results = {reinterpret_cast<std::byte*>(result)};
  reduce(sources, results, count, DataType::f32, ReduceOp::sum);
}

void Accumulator::add(const float* gradients, std::size_t offset, std::size_t count) {
  MUSTER_ASSERT(offset + count <= elements_, "a micro-batch adds within the arena");
  const unsigned free_level =
      order_ == SumOrder::tree ? static_cast<unsigned>(std::countr_one(micro_batches_)) : 0U;
  while (levels_.size() <= free_level) levels_.emplace_back(elements_);
  float* target = levels_[free_level].data() + offset;
  const float* sum = gradients + offset;
  if (order_ == SumOrder::sequence) {
    if (micro_batches_ > 0) return add_floats(target, sum, target, count);
  }
  for (unsigned level = 0; level < free_level; ++level) {
    add_floats(levels_[level].data() + offset, sum, target, count);
    sum = target;
  }
  if (sum != target) std::copy_n(sum, count, target);
}

void Accumulator::count_micro_batch() {
  ++micro_batches_;
}

void Accumulator::fold_into(float* gradients, std::size_t offset, std::size_t count) const {
  float* sum = gradients + offset;
  for (unsigned level = 0; level < levels_.size(); ++level)
    if ((occupied() >> level & 1U) != 0) add_floats(levels_[level].data() + offset, sum, sum, count);
}

}  // namespace muster::parallel
