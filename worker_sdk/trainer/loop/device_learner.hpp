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
  void share_state() override;
  void share_statistics() override;
  std::uint64_t parameter_hash() override;
  std::vector<NamedTensor> model_tensors(bool averaged) override;
  std::vector<NamedTensor> state_tensors() override;

  std::vector<HookState> hook_state() const override;

  std::int64_t steps() const override { return session_.steps(); }

  void set_steps(std::int64_t steps) override { session_.set_steps(steps); }

  const char* optimizer_kind() const override { return options_.optimizer.kind.c_str(); }

  const nn::ModelSpec& spec() const override { return session_.spec(); }

  const std::optional<MicroBatches>& micro_batch_plan() const override { return plan_; }

  MemoryTable memory() const override;

  void record(TraceRecorder* recorder) override { recorder_ = recorder; }

 private:
  using Arena = std::vector<float>;

  nn::gpu::SessionOptions session_options(const LearnerTask& task);
  void sum(void* data, std::size_t count, DataType type, void* stream);
  void sum_bucket(std::size_t bucket, float* data, std::size_t count, void* stream);
  void sum_on_host();
  void make_mean_statistics();
  void fetch();
  std::vector<double> sum_tally();
  void append(std::vector<NamedTensor>& tensors, const std::string& prefix, Arena& arena);

  const LearnerOptions options_;
  ProcessGroup* const group_;
  nn::gpu::Ops& ops_;
  const bool sums_on_device_;   ///< what has a stream, such as the statistics of batch norm
  const bool buckets_on_host_;  ///< gradients are summed in memory of the host
  const std::size_t data_bytes_;
  const std::optional<MicroBatches> plan_;
  nn::gpu::Session session_;
  /// Copies of what the device has, for checkpoints and checks: the parameters, then each state.
  std::vector<Arena> arenas_;
  Arena running_;                                  ///< the running statistics, one after the other
  bool fetched_ = false;                           ///< the copies are those of this step
  std::vector<char> staged_;                       ///< statistics on their way through the host
  float* copied_ = nullptr;                        ///< header and gradients on their way through the host
  std::optional<parallel::BucketSum> bucket_sum_;  ///< sums them there
  std::optional<nn::gpu::HalfSum> half_sum_;       ///< sums them on the device, in 16 bits
  std::optional<TreeSum> statistics_;              ///< deterministic world only
  std::vector<std::size_t> sizes_;                 ///< images in each batch of a pass
  std::size_t next_ = 0;
  std::size_t position_ = 0;
  TraceRecorder* recorder_ = nullptr;
};

}  // namespace muster::train
