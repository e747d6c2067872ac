// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/reducer.hpp"
#include "worker_sdk/parallel/statistics_exchange.hpp"
#include "worker_sdk/trainer/loop/learner.hpp"
#include "worker_sdk/trainer/nn/network.hpp"
#include "worker_sdk/trainer/optim/ema.hpp"
#include "worker_sdk/trainer/optim/optimizer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace muster::train {

/// Network, gradients, optimizer and running statistics in this process's memory.
class CpuLearner final : public Learner {
 public:
  /// `data` and `group` (null: a world of one) outlive it. A collective call; every rank starts with rank 0's
  /// parameters.
  CpuLearner(const LearnerTask& task, const data::ImageData& data, ProcessGroup* group);
  ~CpuLearner() override;
  CpuLearner(const CpuLearner&) = delete;
  CpuLearner& operator=(const CpuLearner&) = delete;

  void begin_epoch(BatchPlan batches, int epoch) override { train_.begin(std::move(batches), epoch); }

  StepResult step(const StepRequest& request) override;
  void begin_evaluation(BatchPlan batches) override;
  nn::BatchScore score() override;
  void end_evaluation() override;
  void share_state() override;
  void share_statistics() override;
  std::uint64_t parameter_hash() override;
  std::vector<NamedTensor> model_tensors(bool averaged) override;
  std::vector<NamedTensor> state_tensors() override;

  std::vector<HookState> hook_state() const override { return reducer_->hook_state(); }

  std::int64_t steps() const override { return optimizer_->steps(); }

  void set_steps(std::int64_t steps) override;

  const char* optimizer_kind() const override { return optimizer_->kind(); }

  const nn::ModelSpec& spec() const override { return network_->spec(); }

  const std::optional<MicroBatches>& micro_batch_plan() const override { return plan_; }

  MemoryTable memory() const override;

  void record(TraceRecorder* recorder) override { recorder_ = recorder; }

 private:
  class Statistics;

  void lay_out_buffers();
  ReducerOptions reducer_options();
  nn::BatchScore learn(const data::Batch& batch, bool last, const nn::BatchScore& before, const Votes& votes,
                       StepTimes& times);
  void require_finite(double loss);
  void account(const StepTiming& timing, StepTimes& times) const;
  void finish(StepResult& result);

  const LearnerOptions options_;
  ProcessGroup* const group_;
  const std::size_t loader_bytes_;
  data::BatchLoader train_;
  data::BatchLoader test_;
  const std::thread::id own_thread_ = std::this_thread::get_id();
  const std::optional<MicroBatches> plan_;
  std::unique_ptr<StatisticsExchange> exchange_;
  std::unique_ptr<nn::Network> network_;
  std::optional<Reducer> reducer_;
  std::vector<float> values_;
  std::vector<nn::ParameterSlot> slots_;
  std::vector<float> buffers_;
  std::vector<float*> buffer_slots_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::Ema> average_;
  std::unique_ptr<Statistics> statistics_;  ///< deterministic world only
  float learning_rate_ = 0;
  std::vector<float> logits_gradient_;
  TraceRecorder* recorder_ = nullptr;
};

}  // namespace muster::train
