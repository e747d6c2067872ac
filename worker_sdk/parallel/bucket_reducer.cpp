// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/bucket_reducer.hpp"

#include "worker_sdk/parallel/deterministic.hpp"

#include <utility>

namespace muster::parallel {
namespace {

std::vector<float*> in_arena(const BucketLayout& layout, float* gradients) {
  std::vector<float*> places;
  for (const Bucket& bucket : layout.buckets) places.push_back(gradients + bucket.offset);
  return places;
}

}  // namespace

BucketReducer::BucketReducer(const BucketLayout& layout, const ReducerOptions& options, Memory& memory,
                             float* header, bool shared, Fold fold, std::vector<float*> places)
    : layout_(layout),
      options_(options),
      header_(header),
      shared_(shared),
      waiting_(memory, layout.elements, sum_order(options), "gradients of micro-batches"),
      fold_(fold),
      places_(places.empty() ? in_arena(layout, header + kHeaderFloats) : std::move(places)),
      missing_(layout.buckets.size()) {}

void BucketReducer::begin(unsigned place, bool last) {
  place_ = place;
  last_ = last;
  if (!last) return;
  for (std::size_t b = 0; b < missing_.size(); ++b) missing_[b] = layout_.buckets[b].parameters.size();
  ready_buckets_ = 0;
  open();
}

void BucketReducer::ready(std::size_t parameter) {
  const std::size_t offset = layout_.offsets[parameter];
  const std::size_t count = layout_.sizes[parameter];
  const std::size_t bucket = layout_.bucket_of[parameter];
  float* const gradient = places_[bucket] + (offset - layout_.buckets[bucket].offset);
  if (!last_) {
    if (fold_ == Fold::parameter) waiting_.add(place_, gradient, offset, count);
    return;
  }
  if (fold_ == Fold::parameter) waiting_.fold_into(place_, gradient, offset, count);
  --missing_[bucket];
  const std::size_t before = ready_buckets_;
  while (ready_buckets_ < missing_.size() && missing_[ready_buckets_] == 0) ++ready_buckets_;
  if (ready_buckets_ != before) launch(ready_buckets_);
}

void BucketReducer::end() {
  if (last_) return close();
  if (fold_ == Fold::bucket) waiting_.add(place_, gradients(), 0, layout_.elements);
}

void BucketReducer::reduce(std::size_t bucket) {
  const Bucket& range = layout_.buckets[bucket];
  if (fold_ == Fold::bucket) waiting_.fold_into(place_, places_[bucket], range.offset, range.elements);
  if (shared_) {
    if (bucket == 0 && options_.meet_first) {
      mark(Moment::meeting, bucket);
      meet();
      mark(Moment::met, bucket);
    }
    mark(Moment::started, bucket);
    sum(bucket);
  }
  mark(Moment::reduced, bucket);
  if (clips())
    measure(bucket);
  else
    step(bucket);
  mark(Moment::stepped, bucket);
}

}  // namespace muster::parallel
