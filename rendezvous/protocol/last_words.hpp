// SPDX-License-Identifier: Apache-2.0
// How long the last words of a node may be on their way to a launcher elsewhere. Each must outlast the one
// before. Pure.
#pragma once

#include <chrono>

namespace muster::rendezvous {

/// From an agent's report to its acknowledgement. The launcher's ssh notices a dead connection after 15 s
/// (ServerAliveInterval=5: two questions unanswered, and an interval more); then the report goes by the
/// coordinator.
inline constexpr std::chrono::seconds kReportAtMost{30};

/// How long the daemon stays when the job is over and its own host's agent is gone: for the other nodes to
/// hear it, and for their reports, which may have no other way.
inline constexpr std::chrono::seconds kDaemonLingers{35};

/// How long its guardian lets it, after the grace of the other nodes' workers.
inline constexpr std::chrono::seconds kDaemonAtMost{40};

}  // namespace muster::rendezvous
