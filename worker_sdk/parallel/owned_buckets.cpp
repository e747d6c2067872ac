// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/owned_buckets.hpp"

#include "worker_sdk/parallel/norm_sums.hpp"

#include <cstdint>

namespace muster::parallel {

void OwnedBuckets::measure(std::size_t bucket, std::span<double> squares) const {
  const FloatRange& mine = own_.whole[bucket];
  const float* const values = sums(bucket);
  for (std::size_t i = layout_.buckets[bucket].norm_begin; i < layout_.buckets[bucket].norm_end; ++i) {
    const auto begin = static_cast<std::size_t>(layout_.norm_blocks[i].offset);
    const auto count = static_cast<std::size_t>(layout_.norm_blocks[i].count);
    squares[i] = 0;
    if (begin < mine.begin || begin + count > mine.end) continue;
    LaneSums block;
    block.add(values + (begin - mine.begin), count);
    squares[i] = block.total();
  }
}

WholeBuckets::WholeBuckets(const BucketLayout& layout, const std::vector<ParameterSpec>& parameters,
                           BucketHook* hook, float* header, ProcessGroup* group)
    : OwnedBuckets(layout, plan_shards(layout, 0, 1)), hook_(hook), header_(header), group_(group) {
  if (group == nullptr) return;
  parameters_.resize(layout.buckets.size());
  views_.resize(layout.buckets.size());
  for (std::size_t b = 0; b < views_.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    for (const std::size_t i : bucket.parameters)
      parameters_[b].push_back({i, layout.offsets[i] - bucket.offset, &parameters[i]});
    views_[b] = {b, views_.size(), bucket.offset, bucket.elements, nullptr, parameters_[b], 0};
  }
  if (hook != nullptr) hook->prepare(*group, views_);
  for (BucketView& view : views_) view.gradients = gradients(view.index);
}

void WholeBuckets::sum(std::size_t bucket) {
  BucketView& view = views_.at(bucket);
  const std::size_t header = bucket == 0 ? kHeaderFloats : 0;
  if (hook_ == nullptr) {
    group_->all_reduce(view.gradients - header, view.elements + header, DataType::f32, ReduceOp::sum);
    return;
  }
  if (header > 0) group_->all_reduce(header_, header, DataType::f32, ReduceOp::sum);
  // A device reports that no step is to be made by a number of samples that is not a number.
  view.samples = header_[0] > 0 ? static_cast<std::int64_t>(header_[0]) : 0;
  if (view.samples > 0) hook_->reduce(*group_, view);
}

}  // namespace muster::parallel
