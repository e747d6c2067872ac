// SPDX-License-Identifier: Apache-2.0
// What people are told of the ranks' calls: who waits for whom, what a rank does, and what it did last. Pure.
#pragma once

#include "worker_sdk/status/diagnosis.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::status {

/// The text about a wait: "rank 3 never entered all_reduce #12 (44.7 MB) of group 'world'; ranks 0-2 wait
/// since 4.2 s. Rank 3 (process 4711) is stopped by a signal or a debugger; ..."
std::string describe(const Wait& wait, const std::vector<RankView>& ranks, std::uint64_t now_ns);

/// The text about what one rank does: "in all_reduce #12 (4.0 kB) of group 'world' since 4.2 s".
std::string activity(const RankView& rank, std::uint64_t now_ns);

/// The last calls for people, oldest first: "world: all_reduce #11 (4.0 kB), 1.3 ms" for each.
std::vector<std::string> brief(const std::vector<RecentCall>& calls, const RankStatus& status,
                               std::uint64_t now_ns);

/// The ranks for people: "ranks 0-2, 5" for {0, 1, 2, 5}, "rank 3" for {3}. Long lists are cut.
std::string name_ranks(const std::vector<int>& ranks);

/// A time for people: "4.2 s", "350 ms".
std::string readable(std::chrono::nanoseconds time);

}  // namespace muster::status
