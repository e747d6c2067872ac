// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/bucket_pipeline.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace muster::parallel {
namespace {

/// The sum of squares, in f64, in eight interleaved sums: a fixed order, so the same bits whoever computes
/// it.
double sum_of_squares(const float* values, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  for (; i < count; ++i) sums[i % kLanes] += static_cast<double>(values[i]) * values[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

BucketPipeline::BucketPipeline(const BucketLayout& layout, const ReducerOptions& options, Memory& memory,
                               float* header, std::unique_ptr<BucketSum> sum, ProcessGroup* group)
    : BucketReducer(layout, options, memory, header, group != nullptr, Fold::parameter),
      sum_(std::move(sum)),
      group_(group),
      squares_(layout.norm_blocks.size()),
      norm_(std::numeric_limits<double>::quiet_NaN()),
      launched_(layout.buckets.size()),
      done_(layout.buckets.size()) {
  timing_.buckets.resize(layout.buckets.size());
  if (group_ != nullptr) thread_ = quiet_thread([this] { run(); });
}

BucketPipeline::~BucketPipeline() {
  if (!thread_.joinable()) return;
  bool in_flight = false;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    in_flight = open_ && error_ == nullptr;
  }
  if (in_flight) group_->abort("rank " + std::to_string(group_->rank()) + " gave up in the middle of a step");
  wake_.notify_all();
  thread_.join();
}

void BucketPipeline::open() {
  timing_.began = timing_.meeting = timing_.met = Clock::now();
  const std::lock_guard lock(mutex_);
  open_ = true;
  launched_ = done_ = 0;
}

void BucketPipeline::launch(std::size_t buckets) {
  MUSTER_ASSERT(buckets <= layout_.buckets.size(), "a step has no more buckets than the layout");
  const auto now = Clock::now();
  if (group_ == nullptr) {
    launch_alone(buckets, now);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    for (; launched_ < buckets; ++launched_) timing_.buckets[launched_].ready = now;
  }
  // With the last one nothing is left to compute: close() comes next and does it.
  if (buckets < layout_.buckets.size()) wake_.notify_all();
}

void BucketPipeline::launch_alone(std::size_t buckets, Clock::time_point now) {
  if (error_ != nullptr) return;
  try {
    for (; done_ < buckets; ++done_) {
      timing_.buckets[done_].ready = now;
      reduce(done_);
    }
  } catch (...) {
    error_ = std::current_exception();  // comes out of close(), as in a world of several
  }
}

void BucketPipeline::close() {
  timing_.waited = Clock::now();
  {
    std::unique_lock lock(mutex_);
    while (done_ < layout_.buckets.size() && error_ == nullptr) {
      if (busy_)
        wake_.wait(lock);
      else
        work_on_next(lock);  // sooner done here than by a thread that has to be woken, and to wake this one
    }
    if (error_ != nullptr) std::rethrow_exception(error_);
    open_ = false;
  }
  if (clips()) clip();
  timing_.finished = Clock::now();
}

bool BucketPipeline::has_failed() const {
  const std::lock_guard lock(mutex_);
  return error_ != nullptr;
}

void BucketPipeline::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || (error_ == nullptr && !busy_ && done_ < launched_); });
    if (stop_) return;
    work_on_next(lock);
  }
}

/// Works on the next bucket, which the caller has to itself.
void BucketPipeline::work_on_next(std::unique_lock<std::mutex>& lock) {
  MUSTER_ASSERT(!busy_ && done_ < launched_, "one thread at a time reduces the next bucket that is ready");
  const std::size_t bucket = done_;
  busy_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    reduce(bucket);
  } catch (const std::exception& failure) {
    error = std::current_exception();
    // A hook or an optimizer failed, here alone: the other ranks would wait for this one.
    if (group_ != nullptr && !group_->has_failed())
      group_->abort("rank " + std::to_string(group_->rank()) +
                    " failed while a bucket of gradients was reduced: " + failure.what());
  } catch (...) {
    error = std::current_exception();
    if (group_ != nullptr)
      group_->abort("rank " + std::to_string(group_->rank()) +
                    " failed while a bucket of gradients was reduced");
  }
  lock.lock();
  busy_ = false;
  error_ = error;
  if (error == nullptr) ++done_;
  wake_.notify_all();
}

void BucketPipeline::meet() {
  std::int32_t here = 1;
  group_->all_reduce(&here, 1, DataType::i32, ReduceOp::sum);
}

void BucketPipeline::sum(std::size_t bucket) {
  sum_->sum(bucket);
}

void BucketPipeline::mark(Moment moment, std::size_t bucket) {
  BucketTiming& timing = timing_.buckets[bucket];
  const auto now = Clock::now();
  switch (moment) {
    case Moment::meeting:
      timing_.meeting = now;
      return;
    case Moment::met:
      timing_.met = now;
      return;
    case Moment::started:
      timing.started = now;
      return;
    case Moment::reduced:
      timing.reduced = now;
      if (!shared_) timing.started = now;
      return;
    case Moment::stepped:
      timing.stepped = options_.bucket_step && !clips() ? now : timing.reduced;
      return;
  }
}

void BucketPipeline::measure(const Bucket& bucket) {
  for (std::size_t i = bucket.norm_begin; i < bucket.norm_end; ++i) {
    const NormBlock& block = layout_.norm_blocks[i];
    squares_[i] = sum_of_squares(gradients() + block.offset, static_cast<std::size_t>(block.count));
  }
}

void BucketPipeline::clip() {
  double squares = 0;
  for (const double block : squares_) squares += block;
  const auto count = static_cast<double>(samples());
  norm_ = count > 0 ? std::sqrt(squares) / count : 0;
  const double scale = options_.max_norm / (norm_ + 1e-6);
  clip_scale_ = scale < 1 ? static_cast<float>(scale) : 1.0F;
  if (!options_.bucket_step) return;
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b) {
    // Timed from the end of the bucket before, so that each bucket's own share shows.
    BucketTiming& timing = timing_.buckets[b];
    const auto began = Clock::now();
    step(layout_.buckets[b]);
    timing.stepped = timing.reduced + (Clock::now() - began);
  }
}

void BucketPipeline::step(const Bucket& bucket) {
  if (!options_.bucket_step || samples() == 0) return;
  options_.bucket_step(bucket.offset, bucket.offset + bucket.elements,
                       clip_scale_ / static_cast<float>(samples()));
}

}  // namespace muster::parallel
