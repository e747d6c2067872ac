// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

namespace muster {

/// The times at which the last step worked on one bucket. Steady clock, which all processes of a host share.
struct BucketTiming {
  using Time = std::chrono::steady_clock::time_point;
  Time ready;    ///< the last gradient of the bucket stood
  Time started;  ///< the sum over the ranks began
  Time reduced;  ///< the sum over the ranks ended
  Time stepped;  ///< the optimizer's step ended; equal to `reduced` without one
};

/// The times of the last step's reduction.
struct StepTiming {
  std::vector<BucketTiming> buckets;
  std::chrono::steady_clock::time_point began;     ///< begin_step()
  std::chrono::steady_clock::time_point waited;    ///< finish_step() was called
  std::chrono::steady_clock::time_point finished;  ///< it returned

  /// Summed over the buckets, hidden behind backward or not. Includes the wait for ranks that are late.
  std::chrono::nanoseconds communication() const {
    std::chrono::nanoseconds sum{};
    for (const BucketTiming& bucket : buckets) sum += bucket.reduced - bucket.started;
    return sum;
  }

  /// The time of the optimizer, as far as it ran per bucket.
  std::chrono::nanoseconds optimizer() const {
    std::chrono::nanoseconds sum{};
    for (const BucketTiming& bucket : buckets) sum += bucket.stepped - bucket.reduced;
    return sum;
  }

  /// The time that finish_step() took: reduction and steps of buckets that backward did not hide, and the
  /// wait for ranks whose backward ended later. So the smallest value of all ranks, that of the rank that
  /// came last, is what communication cost.
  std::chrono::nanoseconds exposed() const { return finished - waited; }
};

}  // namespace muster
