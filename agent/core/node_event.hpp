// SPDX-License-Identifier: Apache-2.0
// What an agent tells its launcher as it happens, for whoever keeps the course of the job: events without a
// time, because the clocks of two hosts are never compared. Pure.
#pragma once

#include "rendezvous/protocol/rank_health.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::agent {

struct NodeEvent {
  enum class Kind {
    round,       ///< the node's workers of a round have been started
    caught_up,   ///< a worker has told the step that an earlier round had reached
    worker_end,  ///< a worker has ended; only if AgentSpec::tell_worker_ends
    failure,     ///< the first failure of a round on this node
    round_end,   ///< why a round ended, and what was decided; from the node that speaks for the job
    hang,        ///< a verdict on a hang, or another one in its place; from the same node
    moves,       ///< the verdict is taken back; from the same node
  };
  Kind kind = Kind::round;
  int round = 0;
  /// round: the place of the node, and the size of the round.
  int nodes = 0;
  int node_rank = 0;
  int world_size = 0;
  int first_rank = 0;
  int workers = 0;
  /// round, round_end: the restarts of the job, the coming one included.
  int restarts = 0;
  /// worker_end, failure, round_end: the worker; -1: no single one.
  int rank = -1;
  int pid = 0;
  int exit_code = 0;
  int signal = 0;
  /// worker_end: whether it ended after our stop signal, and whether the kernel ended it, or a process of its
  /// own, for want of memory.
  bool stopped = false;
  bool memory = false;
  /// Why, for people.
  std::string text{};
  /// failure: the line by which the failure is recognised.
  std::string error_line{};
  /// round_end: the node that caused it (empty: none did), why in one word ("node_failed", "hung"), what was
  /// decided, whether another round follows, and after which time.
  std::string node{};
  std::string cause{};
  std::string decision{};
  bool again = false;
  std::int64_t delay_ms = 0;
  /// failure, round_end: the highest step that a worker of this node had told; 0: none.
  std::uint64_t step = 0;
  /// hang: the verdict, the ranks that are its cause, and how long none had moved.
  rendezvous::HangLevel level = rendezvous::HangLevel::none;
  std::vector<int> culprits{};
  std::int64_t still_ms = 0;
  bool operator==(const NodeEvent&) const = default;
};

/// Most bytes of an event.
inline constexpr std::size_t kNodeEventMax = std::size_t{1} << 20;

/// Write an event as JSON text, and read it. Reading throws std::invalid_argument for anything else, and for
/// more culprits than a verdict has.
std::string to_json(const NodeEvent& event);
NodeEvent node_event_from_json(const std::string& text);

}  // namespace muster::agent
