// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <vector>

namespace muster {

/// When one bucket of the last step was worked on. Steady clock, which all processes of a host share.
struct BucketTiming {
  using Time = std::chrono::steady_clock::time_point;
  Time ready;    ///< its last gradient stood
  Time started;  ///< its sum over the ranks began
  Time reduced;  ///< and ended
  Time stepped;  ///< its optimizer step ended; equal to `reduced` without one
};

/// Where the time of the last step's reduction went.
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

  /// Time of the optimizer, as far as it ran per bucket.
  std::chrono::nanoseconds optimizer() const {
    std::chrono::nanoseconds sum{};
    for (const BucketTiming& bucket : buckets) sum += bucket.stepped - bucket.reduced;
    return sum;
  }

  /// What finish_step() took: reduction and steps of buckets that backward did not hide, and the wait for
  /// ranks whose backward ended later. So the smallest of all ranks, that of the last one to come, is what
  /// communication cost.
  std::chrono::nanoseconds exposed() const { return finished - waited; }
};

}  // namespace muster
