// SPDX-License-Identifier: Apache-2.0
// What happens to a bucket once its gradients stand: summed over the ranks, measured, stepped.
#pragma once

#include "worker_sdk/parallel/bucket_layout.hpp"
#include "worker_sdk/parallel/bucket_sum.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
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

namespace parallel {

/// Works on the buckets of a step strictly in order, so that every rank issues the same calls: where there
/// are other ranks, on a thread of its own, and in finish() on those that nobody has begun; otherwise in
/// launch(). Used by one thread.
class BucketPipeline {
 public:
  /// `layout`, `options` and `group` outlive it; `header` is where header and arena begin. `sum` and `group`,
  /// which is aborted where a step fails, are null in a world of one.
  BucketPipeline(const BucketLayout& layout, const ReducerOptions& options, float* header,
                 std::unique_ptr<BucketSum> sum, ProcessGroup* group);
  /// Aborts the group in the middle of a step.
  ~BucketPipeline();
  BucketPipeline(const BucketPipeline&) = delete;
  BucketPipeline& operator=(const BucketPipeline&) = delete;

  void begin();
  /// The first `buckets` buckets of the step stand. Never waits for other ranks.
  void launch(std::size_t buckets);
  /// Waits for the end of all buckets, which have been launched. Throws what ended the step.
  void finish();

  bool has_failed() const;

  const StepTiming& timing() const { return timing_; }

  double gradient_norm() const { return norm_; }

  float clip_scale() const { return clip_scale_; }

 private:
  void run();
  void work_on_next(std::unique_lock<std::mutex>& lock);
  void launch_alone(std::size_t buckets, std::chrono::steady_clock::time_point now);
  void process(std::size_t bucket);
  void clip();

  bool steps_early() const { return options_.bucket_step && options_.max_norm <= 0; }

  float* arena() const { return header_ + kHeaderFloats; }

  std::int64_t samples() const { return static_cast<std::int64_t>(header_[0]); }

  void step(const Bucket& bucket, float clip);

  const std::vector<Bucket>& buckets_;
  const ReducerOptions& options_;
  float* const header_;
  const std::unique_ptr<BucketSum> sum_;
  ProcessGroup* const group_;
  std::vector<double> squares_;  ///< the sum of squares of each bucket's reduced gradients
  StepTiming timing_;
  double norm_;
  float clip_scale_ = 1;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Under mutex_.
  std::size_t launched_;
  std::size_t done_;
  bool busy_ = false;  ///< somebody works on the bucket `done_`
  bool open_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
};

}  // namespace parallel
}  // namespace muster
