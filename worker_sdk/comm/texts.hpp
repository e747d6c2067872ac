// SPDX-License-Identifier: Apache-2.0
// Gives texts of every length to the ranks of a group.
#pragma once

#include "worker_sdk/comm/process_group.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

/// The text of rank `root`, on every rank. A collective call. Throws Error (mismatch) for more than `most`
/// bytes, which come from a broken peer.
std::string text_of(ProcessGroup& group, const std::string& mine, int root,
                    std::int64_t most = std::int64_t{1} << 32);

/// The texts of all ranks, on every rank. A collective call; null: a world of one. For ends of runs: each
/// text goes around once, whole.
std::vector<std::string> all_texts(ProcessGroup* group, const std::string& mine);

/// The texts of all ranks, on rank 0; empty elsewhere. A collective call; null: a world of one.
std::vector<std::string> texts_at_first(ProcessGroup* group, const std::string& mine);

}  // namespace muster
