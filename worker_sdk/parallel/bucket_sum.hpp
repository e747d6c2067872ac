// SPDX-License-Identifier: Apache-2.0
// One bucket of gradients in memory of the host, summed over the ranks.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <cstddef>
#include <vector>

namespace muster::parallel {

/// Sums the buckets of a step over the ranks, and the header with the first of them. One thread at a time;
/// every rank in the order of the buckets. Throws what the group throws.
class BucketSum {
 public:
  BucketSum() = default;
  virtual ~BucketSum() = default;
  BucketSum(const BucketSum&) = delete;
  BucketSum& operator=(const BucketSum&) = delete;

  virtual void sum(std::size_t bucket) = 0;
};

/// By a hook, or else by one all_reduce.
class WholeBuckets final : public BucketSum {
 public:
  /// `header` is where header and arena begin, memory of the host. All outlive it; `hook` may be null. A
  /// collective call, like sum(), which throws what the hook and the group throw.
  WholeBuckets(const BucketLayout& layout, const std::vector<ParameterSpec>& parameters, BucketHook* hook,
               float* header, ProcessGroup& group);

  void sum(std::size_t bucket) override;

 private:
  std::vector<std::vector<BucketParameter>> parameters_;
  std::vector<BucketView> views_;
  BucketHook* const hook_;
  float* const header_;
  ProcessGroup& group_;
};

}  // namespace muster::parallel
