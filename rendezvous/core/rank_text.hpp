// SPDX-License-Identifier: Apache-2.0
// How ranks and what they do are told to people. Pure.
#pragma once

#include "rendezvous/protocol/rank_health.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace muster::rendezvous {

/// "rank 3", "ranks 0-2, 5"; long lists are cut.
std::string ranks_text(const std::vector<int>& ranks);

/// "train.py:41 in load": the file without its folders; empty if the place is not known.
std::string place_text(const CodePlace& place);

/// What a rank does, behind its name: "waits for a lock", "is stopped by a signal"; `many`: "wait for a
/// lock".
std::string deed_text(const RankHealth& health, bool many);

/// The same with how long it has done so: "waits for a lock since 61 s". A rank that moves, or has ended,
/// does so without a time.
std::string deed_text(const RankHealth& health, bool many, std::chrono::steady_clock::duration lasted);

/// "61 s".
std::string seconds_text(std::chrono::steady_clock::duration time);

}  // namespace muster::rendezvous
