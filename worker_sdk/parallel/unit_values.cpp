// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/unit_values.hpp"

#include <utility>

namespace muster::parallel {

UnitValues::UnitValues(const BucketLayout& layout, const ShardLayout& shards, ProcessGroup& group,
                       std::size_t ahead)
    : shards_(shards), ahead_(ahead), under_way_(layout.buckets.size()) {
  for (const Bucket& bucket : layout.buckets) sizes_.push_back(bucket.elements);
  places_ = plan_places(sizes_, ahead);
  group_ = group.split(0, group.rank());
  memory_ = static_cast<float*>(group_->allocate(places_.floats * sizeof(float)));
}

void UnitValues::begin(const float* values, std::size_t bucket, bool backward) {
  if (under_way_[bucket] == nullptr) start(values, bucket);
  wait(bucket);
  for (std::size_t k = 1; k <= ahead_; ++k) {
    if (backward ? bucket + k >= sizes_.size() : bucket < k) return;
    const std::size_t next = backward ? bucket + k : bucket - k;
    if (under_way_[next] == nullptr) start(values, next);
  }
}

const float* UnitValues::gather(const float* values, std::size_t bucket) {
  under_way_.assign(under_way_.size(), nullptr);
  start(values, bucket);
  wait(bucket);
  return place(bucket);
}

/// Starts to gather a bucket. Calls run in the order in which they are started, so an earlier call for the
/// same place is over by then.
void UnitValues::start(const float* values, std::size_t bucket) {
  for (std::size_t other = 0; other < sizes_.size(); ++other)
    if (overlap(places_, sizes_, bucket, other)) under_way_[other] = nullptr;
  const FloatRange& part = shards_.parts[bucket];
  under_way_[bucket] = group_->start(
      {operation_of(Collective::all_gather, part.size(), DataType::f32, values + part.begin, place(bucket))});
}

/// Waits for a bucket. Then it counts as not gathered, so that the next use gathers it again.
void UnitValues::wait(std::size_t bucket) {
  std::exchange(under_way_[bucket], nullptr)->wait();
}

}  // namespace muster::parallel
