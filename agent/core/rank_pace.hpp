// SPDX-License-Identifier: Apache-2.0
// From the status slot of a program that tells its steps to how fast its rank makes them. Pure.
#pragma once

#include "rendezvous/protocol/message.hpp"
#include "worker_sdk/status/status_reader.hpp"

#include <cstdint>
#include <optional>

namespace muster::agent {

/// One rank of one round. One thread.
class PaceMeter {
 public:
  explicit PaceMeter(rendezvous::RoundNumber round = 0, int rank = 0) : round_(round), rank_(rank) {}

  /// Takes what the slot shows now. Returns the pace of the steps that were told since the last one that this
  /// returned; nullopt if none were, or the program does not tell them.
  std::optional<rendezvous::RankPace> add(const status::RankStatus& status);

 private:
  rendezvous::RoundNumber round_;
  int rank_;
  /// The step up to which the pace is known; step_ns_ is 0 before the first.
  std::uint64_t step_ = 0;
  std::uint64_t step_ns_ = 0;
  std::uint64_t calls_ns_ = 0;
};

/// The time between two looks at the pace of the ranks of a job: at least a second, and longer in a job of
/// many ranks, so that the coordinator gets at most some hundred messages a second.
std::int64_t seconds_between_paces(int world_size);

}  // namespace muster::agent
