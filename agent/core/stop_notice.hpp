// SPDX-License-Identifier: Apache-2.0
// What programs are told that look for MUSTER_STOP_FILE: why their round ends, and how long they have. Pure.
#pragma once

#include "rendezvous/protocol/message.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace muster::agent {

inline constexpr std::size_t kStopReasonMax = 1000;

/// Returns the one line of the file, JSON with "reason" and "grace_s", the seconds from the file's appearance
/// to SIGKILL. The reason is the failure of a worker of this node, "failure of rank 3", if one has failed
/// (`failure` has a text), else `ordered`: of a long one the first kStopReasonMax bytes; what is no UTF-8 is
/// replaced. Without either the result is empty.
std::string stop_notice(const std::string& ordered, const rendezvous::FailRound& failure,
                        std::chrono::milliseconds grace);

/// The reason where the coordinator has ended the round: "failure of rank 3", the name of the signal by which
/// another node was told to stop, or the coordinator's words, as for a node that is lost or a new one.
std::string stop_reason(const rendezvous::RoundEnd& end);

}  // namespace muster::agent
