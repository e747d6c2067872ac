// SPDX-License-Identifier: Apache-2.0
// What happens to the gradients of a step, in one order for memory of every kind: those of micro-batches
// wait, each bucket whose gradients stand is folded with them, summed over the ranks, measured or stepped.
// bucket_pipeline.hpp does it on a host, nn/gpu/reduce on a device.
#pragma once

#include "worker_sdk/parallel/accumulator.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
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

/// The times of the last step's reduction. Those of a device are its events, from the moment on at which the
/// host began the step.
struct StepTiming {
  std::vector<BucketTiming> buckets;
  std::chrono::steady_clock::time_point began;     ///< the last micro-batch began
  std::chrono::steady_clock::time_point meeting;   ///< this rank was there; see ReducerOptions::meet_first
  std::chrono::steady_clock::time_point met;       ///< all ranks were; equal where they do not meet
  std::chrono::steady_clock::time_point waited;    ///< nothing was left but buckets
  std::chrono::steady_clock::time_point finished;  ///< all buckets were done

  /// Summed over the buckets, hidden behind backward or not. Includes the wait for ranks that are late, but
  /// for that in which they meet.
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

  /// The time from `waited` to `finished`: reduction and steps of buckets that backward did not hide, and the
  /// wait for ranks whose backward ended later. So the smallest value of all ranks, that of the rank that
  /// came last, is what communication cost.
  std::chrono::nanoseconds exposed() const { return finished - waited; }
};

namespace parallel {

/// The order of a step. Buckets are worked on strictly in theirs, so that every rank issues the same calls.
/// What is called between begin() and end() depends on their arguments alone: on a device it is recorded, and
/// replayed without this object. One thread.
class BucketReducer {
 public:
  virtual ~BucketReducer() = default;
  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;

  /// A micro-batch begins, which is number `place` of its step. With the last one buckets are reduced.
  void begin(unsigned place, bool last);
  /// The gradient of `parameter` stands, said once in a micro-batch. Never waits for other ranks.
  void ready(std::size_t parameter);
  /// All gradients stand. Behind it (on a device: for calls that come later) the micro-batch waits, or the
  /// step is made. Throws what ended the step.
  void end();

  /// Number of buckets, from the first on, whose gradients stand.
  std::size_t ready_buckets() const { return ready_buckets_; }

  /// Bytes of gradients that wait for the end of their step.
  std::size_t waiting_bytes() const { return waiting_.bytes(); }

 protected:
  enum class Moment : std::uint8_t { meeting, met, started, reduced, stepped };

  /// Where waiting gradients are folded in: with each parameter in ready(), where it is still in the cache,
  /// or with each bucket in reduce(), which takes fewer calls.
  enum class Fold : std::uint8_t { parameter, bucket };

  /// `layout`, `options`, `memory` and `header`, where header and arena begin, outlive it. `shared`: there
  /// are other ranks. `places`: where backward writes the gradients of each bucket; empty: in that arena.
  BucketReducer(const BucketLayout& layout, const ReducerOptions& options, Memory& memory, float* header,
                bool shared, Fold fold, std::vector<float*> places = {});

  /// Everything that happens to a bucket.
  void reduce(std::size_t bucket);

  bool clips() const { return options_.max_norm > 0; }

  float* gradients() const { return header_ + kHeaderFloats; }

  const BucketLayout& layout_;
  const ReducerOptions& options_;
  float* const header_;
  const bool shared_;
  Accumulator waiting_;

 private:
  /// The last micro-batch of a step begins.
  virtual void open() = 0;
  /// The first `buckets` buckets of the step stand: reduce() is to be called for each, in their order.
  virtual void launch(std::size_t buckets) = 0;
  /// All have been launched. With clipping the factor is known now, and the step is made.
  virtual void close() = 0;
  /// All ranks are waited for.
  virtual void meet() = 0;
  virtual void sum(std::size_t bucket) = 0;
  /// Sums the squares of the bucket's blocks (BucketLayout::norm_blocks).
  virtual void measure(std::size_t bucket) = 0;
  /// Optimizer and average of the weights.
  virtual void step(std::size_t bucket) = 0;
  virtual void mark(Moment moment, std::size_t bucket) = 0;

  const Fold fold_;
  const std::vector<float*> places_;
  std::vector<std::size_t> missing_;  ///< gradients that each bucket waits for
  std::size_t ready_buckets_ = 0;
  unsigned place_ = 0;
  bool last_ = true;
};

}  // namespace parallel
}  // namespace muster
