// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace muster {

/// Tasks of each node as Slurm writes them: "2(x3),1" is 2, 2, 2, 1. nullopt for what no Slurm writes, more
/// than 2^20 nodes or tasks of a node among it.
std::optional<std::vector<int>> parse_task_counts(std::string_view text);

}  // namespace muster
