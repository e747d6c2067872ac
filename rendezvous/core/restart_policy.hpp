// SPDX-License-Identifier: Apache-2.0
// Whether a job is started again, when, and why not: every rule about restarts, and their one counter. Pure.
#pragma once

#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/message.hpp"

#include <limits>
#include <optional>
#include <string>

namespace muster::rendezvous {

struct RestartLimits {
  RestartRule rule = RestartRule::backoff;
  /// For failures of workers and losses of nodes. Default: as many as there are.
  int max_restarts = std::numeric_limits<int>::max();
  /// Nodes that a round needs, and may have. An elastic job may have more than it needs.
  int min_nodes = 1;
  int max_nodes = 1;
  /// How long nodes that are lacking are waited for.
  Milliseconds join_timeout = kJoinTimeout;
};

/// A round that ends without success, and what is left of the job.
struct EndedRound {
  RoundEndCause cause = RoundEndCause::node_failed;
  /// Of a worker that failed, as in FailRound.
  int exit_code = 1;
  int signal = 0;
  std::string error_line{};
  bool stepped = false;
  /// From the places to this end.
  Milliseconds lasted{0};
  /// That are left.
  int nodes = 1;
  /// They are enough for another round, or others may come and are waited for.
  bool enough = true;
};

/// A failure of a worker and the loss of a node cost a restart each, and so does a node that leaves a job of
/// fixed size on an order and may be replaced. These rules hold beside that, but for RestartRule::torchrun: a
/// loss after which an elastic job still has the nodes it needs costs none; each restart waits longer than
/// the one before; what could not be executed is not started again.
class RestartPolicy {
 public:
  struct Decision {
    bool again = false;
    /// Nodes are lacking; without that there might be another round.
    bool lacks_nodes = false;
    /// From this end to the next round.
    Milliseconds delay{0};
    /// For people: "restarting all workers in 2 s (restart 2 of 5)".
    std::string text{};
  };

  /// RestartRule::progress: so many failures in a row for the same reason, each after a shorter time than
  /// this and without a step, are enough.
  static constexpr int kSameFailures = 3;
  static constexpr Milliseconds kSoon = std::chrono::seconds(30);

  explicit RestartPolicy(RestartLimits limits) : limits_(limits) {}

  Decision decide(const EndedRound& round);

  /// Used up so far.
  int restarts() const { return restarts_; }

  /// Before restart 1, 2, 3, ...: 0, 1, 2, 4, 8, 16, and from then on 30 s.
  static Milliseconds delay_before(int restart);

 private:
  /// What two failures must have in common to count as the same.
  struct Reason {
    int exit_code = 0;
    int signal = 0;
    std::string error_line;
    bool operator==(const Reason&) const = default;
  };

  bool as_torchrun() const { return limits_.rule == RestartRule::torchrun; }

  bool elastic() const { return limits_.min_nodes < limits_.max_nodes; }

  bool costs_restart(const EndedRound& round) const;
  bool waits_for_another(const EndedRound& round) const;
  std::optional<std::string> objection(const EndedRound& round) const;
  void remember(const EndedRound& round);

  RestartLimits limits_;
  int restarts_ = 0;
  /// Of the last failure that got nowhere, and how many of them there were in a row.
  Reason reason_;
  int same_failures_ = 0;
};

/// "1 node is left, and the job needs 2".
std::string nodes_left_text(int needed, int left);

}  // namespace muster::rendezvous
