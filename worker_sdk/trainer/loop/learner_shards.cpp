// SPDX-License-Identifier: Apache-2.0
// What a learner does where its model is in shards.
#include "worker_sdk/parallel/parameter_check.hpp"
#include "worker_sdk/trainer/loop/learner.hpp"
#include "worker_sdk/trainer/loop/machine.hpp"
#include "worker_sdk/trainer/loop/sharded_model.hpp"

#include <utility>

namespace muster::train {

bool Learner::is_in_shards() const {
  return machine_->shards() != nullptr;
}

std::uint64_t Learner::payload() const {
  const std::uint64_t own = machine_->shards() == nullptr ? 0 : machine_->shards()->payload();
  return own + (group_ == nullptr ? 0 : group_->traffic().payload);
}

void Learner::abort(const std::string& reason) {
  if (machine_->shards() != nullptr) machine_->shards()->abort(reason);
}

/// A bucket at a time: no rank has room for all parameters.
std::uint64_t Learner::hash_of_shards() {
  const parallel::BucketLayout& layout = machine_->layout();
  const std::vector<ParameterSpec>& specs = spec().parameters;
  std::vector<std::uint64_t> hashes(specs.size());
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const float* const values = machine_->shards()->gather(b);
    for (const std::size_t i : layout.buckets[b].parameters)
      hashes[i] =
          hash_values({values + (layout.offsets[i] - layout.buckets[b].offset), specs[i].elements()}, i);
  }
  return require_same_hashes(group_, specs, hashes, steps_);
}

}  // namespace muster::train
