// SPDX-License-Identifier: Apache-2.0
// From the status slot of a program to how fast its rank makes its steps, if it tells them, or else how long
// it is between its calls. Pure.
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

  /// The calls of a program that tells no steps after which its pace is known: of fewer it would depend on
  /// where in a step the looks fall.
  static constexpr std::uint64_t kCallsOfPace = 10;

  /// Takes what the slot shows at `now_ns`, a time of its clock. Returns the pace of the steps that were told
  /// since the last one that this returned, or of the calls, if the program has told no steps and made
  /// kCallsOfPace of them; nullopt if there were none.
  std::optional<rendezvous::RankPace> add(const status::RankStatus& status, std::uint64_t now_ns);

 private:
  std::optional<rendezvous::RankPace> add_calls(const status::RankStatus& status, std::uint64_t now_ns);

  rendezvous::RoundNumber round_;
  int rank_;
  /// The step up to which the pace is known; step_ns_ is 0 before the first.
  std::uint64_t step_ = 0;
  std::uint64_t step_ns_ = 0;
  std::uint64_t calls_ns_ = 0;
  /// The same for calls: their number, when that was seen (0: never), and the time in them until then.
  std::uint64_t calls_ = 0;
  std::uint64_t calls_at_ns_ = 0;
  std::uint64_t in_calls_ns_ = 0;
};

/// The time between two looks at the pace of the ranks of a job: at least a second, and longer in a job of
/// many ranks, so that the coordinator gets at most some hundred messages a second.
std::int64_t seconds_between_paces(int world_size);

}  // namespace muster::agent
