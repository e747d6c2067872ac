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

  void begin_epoch(BatchPlan batches, int epoch) override { train_.begin(std::move(batches), epoch); }

  StepResult step(const StepRequest& request) override;
  void begin_evaluation(BatchPlan batches) override;
  nn::BatchScore score() override;
  void end_evaluation() override;

  std::int64_t steps() const override { return optimizer_->steps(); }

  void set_steps(std::int64_t steps) override;

  const nn::ModelSpec& spec() const override { return network_->spec(); }

  MemoryTable memory() const override;

 private:
  class Statistics;

  void put(Piece piece) override;
  ReducerOptions reducer_options();
  nn::BatchScore learn(const data::Batch& batch, bool last, const nn::BatchScore& before, const Votes& votes,
                       StepTimes& times);
  void require_finite(double loss);
  void account(const StepTiming& timing, StepTimes& times) const;
  void finish(StepResult& result);

  const std::size_t loader_bytes_;
  data::BatchLoader train_;
  data::BatchLoader test_;
  const std::thread::id own_thread_ = std::this_thread::get_id();
  std::unique_ptr<StatisticsExchange> exchange_;
  std::unique_ptr<nn::Network> network_;
  std::optional<Reducer> reducer_;
  std::vector<float> values_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::Ema> average_;
  std::unique_ptr<Statistics> statistics_;  ///< deterministic world only
  float learning_rate_ = 0;
  std::vector<float> logits_gradient_;
};

}  // namespace muster::train
