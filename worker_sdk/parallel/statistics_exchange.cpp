// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/statistics_exchange.hpp"

#include "worker_sdk/comm/process_group.hpp"

namespace muster {
namespace {

class GroupStatistics final : public StatisticsExchange {
 public:
  explicit GroupStatistics(std::unique_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  void sum(std::span<double> values) override {
    if (group_ != nullptr) group_->all_reduce(values.data(), values.size(), DataType::f64, ReduceOp::sum);
  }

 private:
  std::unique_ptr<ProcessGroup> group_;  ///< null in a world of one
};

}  // namespace

std::unique_ptr<StatisticsExchange> make_group_statistics(ProcessGroup* group) {
  const bool alone = group == nullptr || group->size() == 1;
  return std::make_unique<GroupStatistics>(alone ? nullptr : group->split(0, group->rank()));
}

}  // namespace muster
