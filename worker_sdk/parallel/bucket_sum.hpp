// SPDX-License-Identifier: Apache-2.0
// Sums one bucket of gradients in memory of the host over the ranks.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <cstddef>
#include <vector>

namespace muster::parallel {

/// Sums the buckets of a step over the ranks, and the header together with the first one. One thread at a
/// time; every rank in the order of the buckets. Throws the errors of the group.
class BucketSum {
 public:
  BucketSum() = default;
  virtual ~BucketSum() = default;
  BucketSum(const BucketSum&) = delete;
  BucketSum& operator=(const BucketSum&) = delete;

  virtual void sum(std::size_t bucket) = 0;
};

/// Sums whole buckets by a hook, or else by one all_reduce.
class WholeBuckets final : public BucketSum {
 public:
  /// `header` is where header and arena begin, in memory of the host. All arguments outlive this object;
  /// `hook` may be null. Like sum(), a collective call that throws the errors of the hook and of the group.
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
