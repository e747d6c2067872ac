// SPDX-License-Identifier: Apache-2.0
// Handles the gradients of a step in one order for memory of every kind: the gradients of micro-batches wait;
// each bucket whose gradients are complete is folded with them, summed over the ranks, and measured or
// stepped. bucket_pipeline.hpp does this on a host, nn/gpu/reduce on a device.
#pragma once

#include "worker_sdk/parallel/accumulator.hpp"
#include "worker_sdk/parallel/bucket_layout.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster {

/// The times at which the last step worked on one bucket, on the steady clock, which all processes of a host
/// share.
struct BucketTiming {
  using Time = std::chrono::steady_clock::time_point;
  Time ready;    ///< when the last gradient of the bucket was complete
  Time started;  ///< when the sum over the ranks began
  Time reduced;  ///< when the sum over the ranks ended
  Time stepped;  ///< when the optimizer's step ended; equal to `reduced` without one
};

/// The times of the last step's reduction. On a device they are taken from its events and count from when the
/// host began the step.
struct StepTiming {
  std::vector<BucketTiming> buckets;
  std::chrono::steady_clock::time_point began;     ///< when the last micro-batch began
  std::chrono::steady_clock::time_point meeting;   ///< when this rank came; see ReducerOptions::meet_first
  std::chrono::steady_clock::time_point met;       ///< when all ranks had come; equal if they do not meet
  std::chrono::steady_clock::time_point waited;    ///< when only buckets were left to wait for
  std::chrono::steady_clock::time_point finished;  ///< when all buckets were done

  /// The time of the sums over all buckets, whether hidden behind backward or not. It includes the wait for
  /// late ranks, except the wait in which the ranks meet.
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

/// The order of a step. Buckets are worked on strictly in their order, so that every rank issues the same
/// calls. The calls between begin() and end() depend on their arguments alone: on a device they are recorded,
/// and replayed without this object. One thread.
class BucketReducer {
 public:
  virtual ~BucketReducer() = default;
  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;

  /// Begins a micro-batch, which is number `place` of its step. During the last one buckets are reduced.
  void begin(unsigned place, bool last);
  /// Tells that the gradient of `parameter` is complete, once in a micro-batch. Never waits for other ranks.
  void ready(std::size_t parameter);
  /// Tells that all gradients are complete. Afterwards (on a device: for later calls) the micro-batch waits,
  /// or the step is done. Throws the error that ended the step.
  void end();

  /// The number of buckets, from the first on, whose gradients are complete.
  std::size_t ready_buckets() const { return ready_buckets_; }

  /// The bytes of gradients that wait for the end of their step.
  std::size_t waiting_bytes() const { return waiting_.bytes(); }

 protected:
  enum class Moment : std::uint8_t { meeting, met, started, reduced, stepped };

  /// The point at which waiting gradients are added: for each parameter in ready(), while it is still in the
  /// cache, or for each bucket in reduce(), which takes fewer calls.
  enum class Fold : std::uint8_t { parameter, bucket };

  /// `layout`, `options`, `memory` and `header`, where header and arena begin, outlive this object. `shared`:
  /// there are other ranks. `places`: where backward writes the gradients of each bucket; empty: in the
  /// arena.
  BucketReducer(const BucketLayout& layout, const ReducerOptions& options, Memory& memory, float* header,
                bool shared, Fold fold, std::vector<float*> places = {});

  /// Does all the work on a bucket.
  void reduce(std::size_t bucket);

  bool clips() const { return options_.max_norm > 0; }

  float* gradients() const { return header_ + kHeaderFloats; }

  const BucketLayout& layout_;
  const ReducerOptions& options_;
  float* const header_;
  const bool shared_;
  Accumulator waiting_;

 private:
  /// Called when the last micro-batch of a step begins.
  virtual void open() = 0;
  /// Tells that the first `buckets` buckets of the step are complete: reduce() is to be called for each, in
  /// their order.
  virtual void launch(std::size_t buckets) = 0;
  /// Called when all buckets have been launched. With clipping the factor is known now, and the optimizer's
  /// step is made.
  virtual void close() = 0;
  /// Waits for all ranks.
  virtual void meet() = 0;
  virtual void sum(std::size_t bucket) = 0;
  /// Sums the squares of the bucket's blocks (BucketLayout::norm_blocks).
  virtual void measure(std::size_t bucket) = 0;
  /// Applies the optimizer, and updates the average of the weights.
  virtual void step(std::size_t bucket) = 0;
  virtual void mark(Moment moment, std::size_t bucket) = 0;

  const Fold fold_;
  const std::vector<float*> places_;
  std::vector<std::size_t> missing_;  ///< number of gradients that each bucket waits for
  std::size_t ready_buckets_ = 0;
  unsigned place_ = 0;
  bool last_ = true;
};

}  // namespace parallel
}  // namespace muster
