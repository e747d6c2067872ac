// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/bucket_sum.hpp"

#include <cstdint>

namespace muster::parallel {

WholeBuckets::WholeBuckets(const BucketLayout& layout, const std::vector<ParameterSpec>& parameters,
                           BucketHook* hook, float* header, ProcessGroup& group)
    : parameters_(layout.buckets.size()),
      views_(layout.buckets.size()),
      hook_(hook),
      header_(header),
      group_(group) {
  for (std::size_t b = 0; b < views_.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    for (const std::size_t i : bucket.parameters)
      parameters_[b].push_back({i, layout.offsets[i] - bucket.offset, &parameters[i]});
    views_[b] = {b, views_.size(), bucket.offset, bucket.elements, nullptr, parameters_[b], 0};
  }
  if (hook != nullptr) hook->prepare(group, views_);
  for (BucketView& view : views_) view.gradients = header + kHeaderFloats + view.offset;
}

void WholeBuckets::sum(std::size_t bucket) {
  BucketView& view = views_.at(bucket);
  const std::size_t header = bucket == 0 ? kHeaderFloats : 0;
  if (hook_ == nullptr) {
    group_.all_reduce(view.gradients - header, view.elements + header, DataType::f32, ReduceOp::sum);
    return;
  }
  if (header > 0) group_.all_reduce(header_, header, DataType::f32, ReduceOp::sum);
  // A device reports that no step is to be made by a number of samples that is not a number.
  view.samples = header_[0] > 0 ? static_cast<std::int64_t>(header_[0]) : 0;
  if (view.samples > 0) hook_->reduce(group_, view);
}

}  // namespace muster::parallel
