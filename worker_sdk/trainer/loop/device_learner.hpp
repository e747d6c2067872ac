// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/bucket_sum.hpp"
#include "worker_sdk/parallel/deterministic.hpp"
#include "worker_sdk/trainer/loop/learner.hpp"
#include "worker_sdk/trainer/nn/gpu/session/half_sum.hpp"
#include "worker_sdk/trainer/nn/gpu/session/session.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster::train {

/// A learner whose network, data and state live on a device (nn/gpu/session); a step is a few calls. What
/// leaves the process has the names and the order of the CPU's. Gradients are summed by the device where the
/// group is one of NCCL, but for hooks that only the host can do; else through the host's memory, by the same
/// code as the CPU's. One thread.
class DeviceLearner final : public Learner {
 public:
  /// `data`, `ops` and `group` (null: a world of one) outlive it. A collective call; every rank starts with
  /// rank 0's parameters.
  DeviceLearner(const LearnerTask& task, const data::ImageData& data, ProcessGroup* group, nn::gpu::Ops& ops);

  void begin_epoch(BatchPlan batches, int epoch) override;
  StepResult step(const StepRequest& request) override;
  void begin_evaluation(BatchPlan batches) override;
  nn::BatchScore score() override;
  void end_evaluation() override;

  std::int64_t steps() const override { return session_.steps(); }

  void set_steps(std::int64_t steps) override { session_.set_steps(steps); }

  const nn::ModelSpec& spec() const override { return session_.spec(); }

  MemoryTable memory() const override;

 private:
  nn::gpu::SessionOptions session_options(const LearnerTask& task);
  void sum(void* data, std::size_t count, DataType type, void* stream);
  void sum_bucket(std::size_t bucket, float* data, std::size_t count, void* stream);
  void sum_on_host();
  void make_mean_statistics();
  void fetch(Piece piece) override;
  void put(Piece piece) override;
  std::vector<double> sum_tally();

  const ReducerOptions reducer_;
  nn::gpu::Ops& ops_;
  const bool sums_on_device_;   ///< what has a stream, such as the statistics of batch norm
  const bool buckets_on_host_;  ///< gradients are summed in memory of the host
  const std::size_t data_bytes_;
  nn::gpu::Session session_;
  /// Copies of what the device has, for checkpoints and checks: the parameters, then each state.
  std::vector<std::vector<float>> copies_;
  bool fetched_ = false;                           ///< the copies are those of this step
  std::vector<char> staged_;                       ///< statistics on their way through the host
  float* copied_ = nullptr;                        ///< header and gradients on their way through the host
  std::optional<parallel::BucketSum> bucket_sum_;  ///< sums them there
  std::optional<nn::gpu::HalfSum> half_sum_;       ///< sums them on the device, in 16 bits
  std::optional<TreeSum> statistics_;              ///< deterministic world only
  std::vector<std::size_t> sizes_;                 ///< images in each batch of a pass
  std::size_t next_ = 0;
  std::size_t position_ = 0;
};

}  // namespace muster::train
