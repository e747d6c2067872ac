// SPDX-License-Identifier: Apache-2.0
// What the launcher knows about the end of a job besides the reports of its nodes.
#pragma once

#include "launcher/core/time_shares.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// A node on which the agent could not be started, or was lost.
struct HostFailure {
  /// Who has said what `cause` holds.
  enum class Teller {
    launcher,     ///< we, about a node that is not named: "ssh: connection refused"
    node,         ///< the node's guardian, in a sentence that names the node
    coordinator,  ///< the coordinator, in a sentence that names the node
  };
  std::string node;
  std::string cause;
  /// What to do next; may be empty.
  std::string advice;
  /// Whether the agent had been started.
  bool lost = false;
  /// Whether as many nodes were left as the job needs (--nnodes MIN:MAX), so that it could do without the
  /// failed one.
  bool spared = false;
  Teller told_by = Teller::launcher;
  /// Whether `cause` says what was decided about a restart, because that ended the job.
  bool says_decision = false;
  bool operator==(const HostFailure&) const = default;
};

/// Returns who was lost, and why: "n1 was lost: the agent ended with exit code 1 without a report".
inline std::string lost_text(const HostFailure& failure) {
  const bool names_node = failure.told_by != HostFailure::Teller::launcher;
  return names_node ? failure.cause : failure.node + " was lost: " + failure.cause;
}

struct JobTimes {
  /// Beginning and end of the job in milliseconds since 1970, for people; 0: not known.
  std::int64_t started_at_ms = 0;
  std::int64_t ended_at_ms = 0;
  /// How long the job took, by a clock that nobody sets.
  std::int64_t duration_ms = 0;
  /// What that time went into; nullopt: no round could begin.
  std::optional<TimeShares> shares{};
};

/// Why the job came to its end, as the launcher saw it.
struct JobEnd {
  enum class Cause {
    finished,        ///< by itself: the node reports say whether it succeeded
    interrupted,     ///< `signal` was sent to the launcher
    deadline,        ///< --timeout passed
    launcher_error,  ///< something of ours failed: `error` says what, where, and what to do
  };
  Cause cause = Cause::finished;
  int signal = 0;
  std::string error;
  /// Hosts whose agent could not be started or was lost, in the order of events.
  std::vector<HostFailure> hosts{};
  /// Names of nodes that were told to work and did not report in time.
  std::vector<std::string> unreported{};
  /// What the launcher itself has to say: output or files that could not be written.
  std::vector<std::string> notes{};
  JobTimes times{};
  /// Who had the launcher end the job as that signal does: "'muster kill' (uid 0, process 7)". Empty: it was
  /// a signal.
  std::string by{};
};

}  // namespace muster::launcher
