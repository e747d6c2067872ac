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

void UnitValues::begin_pass() {
  under_way_.assign(under_way_.size(), nullptr);
  used_.reset();
}

std::optional<Work::Interval> UnitValues::begin(const float* values, std::span<const std::size_t> uses) {
  const std::size_t bucket = uses.front();
  std::optional<Work::Interval> gathered;
  if (used_ != bucket) {
    if (under_way_[bucket] == nullptr) start(values, bucket);
    gathered = wait(bucket);
    used_ = bucket;
  }
  std::size_t last = bucket;
  std::size_t ahead = 0;
  for (const std::size_t next : uses.subspan(1)) {
    if (next == last) continue;
    last = next;
    if (++ahead > ahead_) break;
    if (under_way_[next] != nullptr) continue;
    if (!is_free(next)) break;
    start(values, next);
  }
  return gathered;
}

/// Whether nothing is in the place of a bucket that is in use, or is still to be used.
bool UnitValues::is_free(std::size_t bucket) const {
  for (std::size_t other = 0; other < sizes_.size(); ++other)
    if ((under_way_[other] != nullptr || used_ == other) && overlap(places_, sizes_, bucket, other))
      return false;
  return true;
}

const float* UnitValues::gather(const float* values, std::size_t bucket) {
  begin_pass();
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
std::optional<Work::Interval> UnitValues::wait(std::size_t bucket) {
  const std::shared_ptr<Work> work = std::exchange(under_way_[bucket], nullptr);
  work->wait();
  return work->interval();
}

}  // namespace muster::parallel
