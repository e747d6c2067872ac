// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/learner/machine.hpp"

#include "worker_sdk/nn/built_in.hpp"

namespace muster::train {

nn::Description network_of(const LearnerOptions& options) {
  constexpr std::int64_t kClasses = data::kClasses;
  return options.network != nullptr ? *options.network : nn::built_in(options.model, kClasses);
}

void Machine::make_arenas(parallel::Memory& memory, const parallel::BucketLayout& layout, float* gradients) {
  gradients_ = gradients;
  float* const values = memory.allocate(layout.elements, "parameters");
  std::vector<nn::ParameterSlot> slots;
  for (const std::size_t offset : layout.offsets) slots.push_back({values + offset, gradients + offset});
  make_arenas(memory, layout, parallel::plan_shards(layout, 0, 1), values, slots);
}

void Machine::make_arenas(parallel::Memory& memory, const parallel::BucketLayout& layout,
                          parallel::ShardLayout own, float* values,
                          const std::vector<nn::ParameterSlot>& slots) {
  memory_ = &memory;
  layout_ = &layout;
  own_ = std::move(own);
  values_ = values;
  const nn::ModelSpec& spec = network_->spec();
  for (const ParameterSpec& buffer : spec.buffers) running_floats_ += buffer.elements();
  running_ = memory.allocate(running_floats_, "running statistics");
  std::vector<float*> buffers;
  float* next = running_;
  for (const ParameterSpec& buffer : spec.buffers) {
    buffers.push_back(next);
    next += buffer.elements();
  }
  network_->bind(slots, buffers);
}

}  // namespace muster::train
