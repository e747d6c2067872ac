// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/statistics_exchange.hpp"

namespace muster {
namespace {

class Alone final : public StatisticsExchange {
 public:
  void sum(std::span<double>) override {}
};

class GroupStatistics final : public StatisticsExchange {
 public:
  explicit GroupStatistics(std::unique_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  void sum(std::span<double> values) override {
    group_->all_reduce(values.data(), values.size(), DataType::f64, ReduceOp::sum);
  }

 private:
  std::unique_ptr<ProcessGroup> group_;
};

}  // namespace

std::unique_ptr<StatisticsExchange> make_group_statistics(ProcessGroup* group) {
  if (group == nullptr || group->size() == 1) return std::make_unique<Alone>();
  return std::make_unique<GroupStatistics>(group->split(0, group->rank()));
}

}  // namespace muster
