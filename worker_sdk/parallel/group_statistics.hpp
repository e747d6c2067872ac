// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/statistics_exchange.hpp"

#include <memory>

namespace muster {

/// The exchange of SyncBatchNorm over a group of its own, split off `group`, so that it runs beside the
/// reducer. Sums in f64, in rank order: the same bits on all ranks and in every run. All ranks of `group`
/// call it alike, and call `sum` equally often, a rank without samples too (with zeros). Null or a group of
/// one: what it returns leaves values as they are. It ends before `group`.
std::unique_ptr<StatisticsExchange> make_group_statistics(ProcessGroup* group);

}  // namespace muster
