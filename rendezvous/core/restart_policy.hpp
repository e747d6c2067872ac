// SPDX-License-Identifier: Apache-2.0
// Decides whether a job is started again, when, and why not: every rule about restarts, and their one
// counter. Pure.
#pragma once

#include "rendezvous/protocol/job_limits.hpp"
#include "rendezvous/protocol/message.hpp"

#include <optional>
#include <string>

namespace muster::rendezvous {

/// A round that ends without success, and what is left of the job.
struct EndedRound {
  RoundEndCause cause = RoundEndCause::node_failed;
  /// The failed worker's exit code, signal and line, as in FailRound.
  int exit_code = 1;
  int signal = 0;
  std::string error_line{};
  bool stepped = false;
  /// The time from when the nodes got their places to this end.
  Milliseconds lasted{0};
  /// The number of nodes that are left.
  int nodes = 1;
  /// Whether the nodes that are left are enough for another round, or others may come and are waited for.
  bool enough = true;
};

/// Decides about restarts. A failure of a worker, a hang that is not to stand (--on-hang restart), and the
/// loss of a node cost a restart each, and so does a node that leaves a job of fixed size on an order and may
/// be replaced. Except with RestartRule::torchrun, these rules hold as well: a loss after which an elastic
/// job still has the nodes it needs costs no restart; each restart waits longer than the one before; a
/// program that could not be executed is not started again.
class RestartPolicy {
 public:
  struct Decision {
    bool again = false;
    /// Whether nodes are lacking; with more nodes there could be another round.
    bool lacks_nodes = false;
    /// The time from this end to the next round.
    Milliseconds delay{0};
    /// The decision for people: "restarting all workers in 2 s (restart 2 of 5)".
    std::string text{};
  };

  /// RestartRule::progress gives up after this many failures in a row for the same reason, each in a shorter
  /// time than kSoon and without a step.
  static constexpr int kSameFailures = 3;
  static constexpr Milliseconds kSoon = std::chrono::seconds(30);

  explicit RestartPolicy(JobLimits limits) : limits_(limits) {}

  Decision decide(const EndedRound& round);

  /// The number of restarts used so far.
  int restarts() const { return restarts_; }

  /// The delay before restart 1, 2, 3, ...: 0, 1, 2, 4, 8, 16, and from then on 30 s.
  static Milliseconds delay_before(int restart);

 private:
  /// What two failures must have in common to count as the same.
  struct Reason {
    int exit_code = 0;
    int signal = 0;
    std::string error_line;
    bool operator==(const Reason&) const = default;
  };

  bool as_torchrun() const { return limits_.restart_rule == RestartRule::torchrun; }

  bool costs_restart(const EndedRound& round) const;
  bool waits_for_another(const EndedRound& round) const;
  std::optional<std::string> objection(const EndedRound& round) const;
  void remember(const EndedRound& round);

  JobLimits limits_;
  int restarts_ = 0;
  /// The reason of the last failure without progress, and the number of such failures in a row.
  Reason reason_;
  int same_failures_ = 0;
};

/// The text "1 node is left, and the job needs 2".
std::string nodes_left_text(int needed, int left);

}  // namespace muster::rendezvous
