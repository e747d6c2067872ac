// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/bucket_pipeline.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace muster::parallel {
namespace {

std::vector<float*> places_of(const OwnedBuckets& owned, std::size_t buckets) {
  std::vector<float*> places;
  for (std::size_t b = 0; b < buckets; ++b) places.push_back(owned.gradients(b));
  return places;
}

}  // namespace

BucketPipeline::BucketPipeline(const BucketLayout& layout, const ReducerOptions& options, Memory& memory,
                               OwnedBuckets& buckets, ProcessGroup* group)
    : BucketReducer(layout, options, memory, buckets.header(), group != nullptr, Fold::parameter,
                    places_of(buckets, layout.buckets.size())),
      buckets_(buckets),
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
  if (in_flight) tell_others("gave up in the middle of a step");
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
  // After the last bucket nothing is left to compute, so close() comes next and works on it without a
  // wake-up.
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
    error_ = std::current_exception();  // close() throws it, as in a world of several ranks
  }
}

void BucketPipeline::close() {
  timing_.waited = Clock::now();
  wait_for(layout_.buckets.size());
  {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  try {
    if (clips()) clip();
  } catch (const std::exception& failure) {
    tell_others(std::string("failed while gradients were clipped: ") + failure.what());
    throw;
  }
  timing_.finished = Clock::now();
}

/// Waits until the first `buckets` buckets, which were launched, are done.
void BucketPipeline::wait_for(std::size_t buckets) {
  std::unique_lock lock(mutex_);
  while (done_ < buckets && error_ == nullptr) {
    if (busy_)
      wake_.wait(lock);
    else
      work_on_next(lock);  // faster here than on a thread that would have to be woken and then wake this one
  }
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void BucketPipeline::enter(std::size_t bucket) {
  // The places of this bucket and of the one before do not overlap, so the earlier ones must be done. Outside
  // of a step all are done.
  if (buckets_.shares_places() && bucket >= 2) wait_for(bucket - 1);
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

/// Works on the next bucket; no other thread works on a bucket meanwhile.
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
    tell_others(std::string("failed while a bucket of gradients was reduced: ") + failure.what());
  } catch (...) {
    error = std::current_exception();
    tell_others("failed while a bucket of gradients was reduced");
  }
  lock.lock();
  busy_ = false;
  error_ = error;
  if (error == nullptr) ++done_;
  wake_.notify_all();
}

/// Ends the step of the other ranks, which would wait for this one. Where the world has failed they know.
void BucketPipeline::tell_others(const std::string& what) {
  if (group_ == nullptr) return;
  const std::string reason = "rank " + std::to_string(group_->rank()) + " " + what;
  if (!group_->has_failed()) group_->abort(reason);
  buckets_.abort(reason);
}

void BucketPipeline::meet() {
  std::int32_t here = 1;
  group_->all_reduce(&here, 1, DataType::i32, ReduceOp::sum);
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
      timing.stepped = steps() && !clips() ? now : timing.reduced;
      return;
  }
}

void BucketPipeline::clip() {
  buckets_.share_squares(squares_);
  double squares = 0;
  for (const double block : squares_) squares += block;
  const auto count = static_cast<double>(samples());
  norm_ = count > 0 ? std::sqrt(squares) / count : 0;
  const double scale = options_.max_norm / (norm_ + 1e-6);
  clip_scale_ = scale < 1 ? static_cast<float>(scale) : 1.0F;
  if (!steps()) return;
  for (std::size_t b = 0; b < layout_.buckets.size(); ++b) {
    // The time counts from the end of the bucket before, so that it shows each bucket's own share.
    BucketTiming& timing = timing_.buckets[b];
    const auto began = Clock::now();
    step(b);
    timing.stepped = timing.reduced + (Clock::now() - began);
  }
}

void BucketPipeline::step(std::size_t bucket) {
  if (!steps() || samples() == 0) return;
  const float scale = clip_scale_ / static_cast<float>(samples());
  if (options_.own_step) {
    options_.own_step(bucket, scale);
  } else {
    const Bucket& range = layout_.buckets[bucket];
    options_.bucket_step(range.offset, range.offset + range.elements, scale);
  }
  buckets_.spread(bucket);
}

}  // namespace muster::parallel
