// SPDX-License-Identifier: Apache-2.0
// What a running job answers to another shell. Pure.
//
// Over the job's Unix socket go one line of JSON each way: the question, an agent::NodeQuery, then the
// answer, then the end.
#pragma once

#include "agent/core/node_status.hpp"
#include "launcher/core/time_shares.hpp"
#include "launcher/inspect/core/job_card.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// Most bytes of an answer.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{256} << 20;

struct JobAnswer {
  JobCard card;
  /// Milliseconds that the job has lasted.
  std::int64_t age_ms = 0;
  /// What that time went into; nullopt: the launcher is of a version that does not say so.
  std::optional<TimeShares> shares{};
  /// The nodes that answered, in the order of the job's.
  std::vector<agent::NodeStatus> nodes;
  /// Names of those that did not within agent::kNodeAnswersWithin.
  std::vector<std::string> silent;
};

/// Returns the verdict on a hang that stands: what a node was told last; of level none if there is none.
agent::StandingHang standing_hang(const JobAnswer& answer);

/// Returns which ranks are slow, as the coordinator has told all nodes; empty: none.
std::string slow_ranks(const JobAnswer& answer);

/// How long all ranks have been idle: each waits, and none for another one, for a key of the store or because
/// it is stopped. nullopt if that is not so, or not since kIdleAtLeast, or not known of each rank.
std::optional<std::chrono::milliseconds> idle_since(const JobAnswer& answer);
inline constexpr std::chrono::seconds kIdleAtLeast{10};

/// Returns why there were restarts, the first one first: of the node that knows most of them.
std::vector<agent::EndedRound> ended_rounds(const JobAnswer& answer);

/// Write an answer as JSON text, and read it. Reading throws std::invalid_argument.
std::string to_json(const JobAnswer& answer);
JobAnswer job_answer_from_json(const std::string& text);

}  // namespace muster::launcher
