// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/comm/process_group.hpp"

#include <string>
#include <vector>

namespace muster::train {

/// The texts of all ranks, on every rank. A collective call; null: a world of one. For ends of runs: each
/// text goes around once, whole.
std::vector<std::string> all_texts(ProcessGroup* group, const std::string& mine);

/// The texts of all ranks, on rank 0; empty elsewhere. A collective call; null: a world of one.
std::vector<std::string> texts_at_first(ProcessGroup* group, const std::string& mine);

}  // namespace muster::train
