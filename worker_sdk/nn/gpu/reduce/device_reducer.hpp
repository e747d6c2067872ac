// SPDX-License-Identifier: Apache-2.0
// The order of a step's buckets, on a device.
#pragma once

#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/nn/gpu/reduce/device_memory.hpp"
#include "worker_sdk/nn/gpu/reduce/rank_sums.hpp"
#include "worker_sdk/nn/optim/optimizer.hpp"
#include "worker_sdk/parallel/bucket_reducer.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn::gpu {

/// What an optimizer works on, on a device.
struct DeviceArenas {
  float* values = nullptr;
  std::vector<float*> states;      ///< of the optimizer
  float* average = nullptr;        ///< the moving average of the weights; null: none
  std::uint8_t* decays = nullptr;  ///< whether weight decay applies, one flag for each kArenaStep floats
  StepValues* step_values = nullptr;
};

/// Puts everything that happens to the buckets of a step onto the side stream, behind what the main stream
/// has so far. One thread.
class DeviceReducer final : public parallel::BucketReducer {
 public:
  /// All but `arenas` and `optimizer` outlive it. `header`: where header and arena of the gradients begin.
  /// Its marks are `first_mark` and the ones behind it. `overflow`, on the device: set to 1 in a step that is
  /// left out because a gradient was too large; null: gradients are no multiple. Where they are, there must
  /// be a norm to clip to.
  DeviceReducer(const parallel::BucketLayout& layout, const ReducerOptions& options,
                const optim::OptimizerOptions& optimizer, DeviceArenas arenas, float* header,
                double* overflow, RankSums& sums, DeviceMemory& memory, Ops& ops, int micro_batches,
                std::size_t first_mark);

  /// The times of the last step, which is done: mark 0 was at `start`.
  const StepTiming& timing(std::chrono::steady_clock::time_point start);

 private:
  void open() override { launched_ = 0; }

  void launch(std::size_t buckets) override;
  void close() override;

  void meet() override { sums_.meet(stream_); }

  void sum(std::size_t bucket) override { sums_.sum_bucket(bucket, stream_); }

  void measure(std::size_t bucket) override;

  void step(std::size_t bucket) override {
    const parallel::Bucket& range = layout_.buckets[bucket];
    step_range(range.offset, range.offset + range.elements);
  }

  void mark(Moment moment, std::size_t bucket) override { ops_.mark(mark_of(moment, bucket)); }

  void step_range(std::size_t begin, std::size_t end);

  /// Only before the first bucket ranks meet.
  std::size_t mark_of(Moment moment, std::size_t bucket) const {
    return first_mark_ + 3 * bucket + static_cast<std::size_t>(moment);
  }

  std::size_t waited_mark() const { return mark_of(Moment::started, layout_.buckets.size()); }

  std::size_t finished_mark() const { return waited_mark() + 1; }

  const optim::OptimizerOptions optimizer_;
  const DeviceArenas arenas_;
  double* const overflow_;
  RankSums& sums_;
  Ops& ops_;
  const std::size_t first_mark_;
  NormBlock* blocks_ = nullptr;  ///< the layout's; null: no clipping
  double* squares_ = nullptr;    ///< one for each of them
  float* clip_ = nullptr;
  void* stream_ = nullptr;  ///< the side stream, in reduce()
  std::size_t launched_ = 0;
  StepTiming timing_;
};

}  // namespace muster::nn::gpu
