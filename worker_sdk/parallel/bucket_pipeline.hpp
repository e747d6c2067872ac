// SPDX-License-Identifier: Apache-2.0
// Works on the buckets of a step in order, on a host.
#pragma once

#include "worker_sdk/parallel/bucket_reducer.hpp"
#include "worker_sdk/parallel/owned_buckets.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster::parallel {

/// Works on the buckets of a step. If there are other ranks, a thread of its own does it, and end() works on
/// the buckets that were not begun; otherwise ready() does it. end() waits for all buckets. Used by one
/// thread.
class BucketPipeline final : public BucketReducer {
 public:
  /// All arguments outlive this object. `group` is the world, which is aborted with the buckets if a step
  /// fails; null: a world of one.
  BucketPipeline(const BucketLayout& layout, const ReducerOptions& options, Memory& memory,
                 OwnedBuckets& buckets, ProcessGroup* group);
  /// Aborts the group in the middle of a step.
  ~BucketPipeline() override;

  bool has_failed() const;

  /// Tells that backward is about to write the gradients of `bucket`, and waits until the place is free if
  /// buckets share places.
  void enter(std::size_t bucket);

  const StepTiming& timing() const { return timing_; }

  double gradient_norm() const { return norm_; }

  float clip_scale() const { return clip_scale_; }

 private:
  using Clock = std::chrono::steady_clock;

  void open() override;
  void launch(std::size_t buckets) override;
  void close() override;
  void meet() override;

  void sum(std::size_t bucket) override { buckets_.sum(bucket); }

  void measure(std::size_t bucket) override { buckets_.measure(bucket, squares_); }

  void step(std::size_t bucket) override;
  void mark(Moment moment, std::size_t bucket) override;

  void run();
  void work_on_next(std::unique_lock<std::mutex>& lock);
  void launch_alone(std::size_t buckets, Clock::time_point now);
  void wait_for(std::size_t buckets);
  void clip();

  bool steps() const { return options_.bucket_step != nullptr || options_.own_step != nullptr; }

  void tell_others(const std::string& what);

  std::int64_t samples() const { return static_cast<std::int64_t>(header_[0]); }

  OwnedBuckets& buckets_;
  ProcessGroup* const group_;
  std::vector<double> squares_;  ///< the sum of squares of each block of the reduced gradients
  StepTiming timing_;
  double norm_;
  float clip_scale_ = 1;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // The following members are protected by mutex_.
  std::size_t launched_;
  std::size_t done_;
  bool busy_ = false;  ///< whether a thread works on the bucket `done_`
  bool open_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
};

}  // namespace muster::parallel
