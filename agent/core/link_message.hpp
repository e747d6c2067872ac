// SPDX-License-Identifier: Apache-2.0
// What launcher and agent say to each other over their private connection.
#pragma once

#include "rendezvous/protocol/limits.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::agent {

/// One message. On the wire it is the payload of one frame (rendezvous/wire/frame.hpp): a line
/// "<kind> <number>\n", then the body, which may hold any bytes.
struct LinkMessage {
  enum class Kind {
    // The first messages of a started node, and its guardian's last. They are asides, because the agent,
    // which counts messages, is not there. hello, listening and notice go from the node to the launcher.
    hello,      ///< body is the JSON of a NodeHello
    key,        ///< the node's key; on the coordinator's node the job secret follows it; number: how many
    spec,       ///< body is the JSON of an AgentSpec
    listening,  ///< the coordinator listens; body is the JSON of a LinkEndpoint
    notice,     ///< the guardian's words, over a link its last; number: a Notice

    // launcher -> agent
    coordinator,  ///< where the coordinator is: the JSON of a LinkEndpoint
    stop,         ///< end the job in an orderly way; number is the signal for the workers; body: a StopOrder
    kill,         ///< end the job without grace
    resize,       ///< the terminal has a new size
    signal,       ///< the launcher got the signal `number`, which ends nothing: for workers that handle it
    query,        ///< question `number` of somebody who looks at the job: the JSON of a NodeQuery

    // agent -> launcher
    log,   ///< a line for the launcher's log
    hang,  ///< the verdict on a hang that the node was told: the JSON of a HangReport, with its ranks' stacks
    event,   ///< what happened to the round or a worker: the JSON of a NodeEvent, for who keeps the job's
             ///< course
    status,  ///< what the node waits for, a text for people; from the launcher: a sign that it lives
    answer,  ///< to the question `number`: the JSON of a NodeStatus
    report,  ///< last but `bye`: body is the JSON of a NodeReport
    bye,     ///< nothing follows
  };

  /// What the body of a notice says.
  enum Notice : std::int64_t {
    in_words = 1,    ///< why the node could not begin, or go on
    agent_lost = 2,  ///< how the agent process was lost: "killed by SIGKILL"
    no_loss = 3,     ///< what people are to know at once, as that a process of ours is stopped
  };

  Kind kind = Kind::kill;
  std::int64_t number = 0;
  std::string body;
};

std::string encode(const LinkMessage& message);

/// Throws std::invalid_argument for anything that encode() does not write.
LinkMessage decode_link_message(std::string_view payload);

/// Most bytes of a body; kind and number need the rest of a frame.
inline constexpr std::size_t kLinkBodyMax = rendezvous::kMaxControlFrameBytes - 64;
/// Most bytes of a report: output and log files that are not acknowledged yet are kept beside it, and a
/// session that keeps too much ends.
inline constexpr std::size_t kLinkReportMax = rendezvous::kMaxUnacknowledgedBytes / 2;
static_assert(kLinkReportMax <= kLinkBodyMax, "a report is one message");

/// How often the launcher of several hosts says something to each node, from its greeting to its end: a host
/// that vanishes ends neither its ssh nor anything else elsewhere.
inline constexpr std::chrono::seconds kLauncherSpeaksEvery{5};
/// Silence after which a node takes the launcher for gone, unless the coordinator has heard of it. The
/// launcher's own ssh clients give up after 15 s, so that one that is silent for longer cannot come back.
inline constexpr std::chrono::seconds kLauncherSilentAtMost{16};

/// What a channel of a link is for, as its opener says: the launcher for the worker that reads stdin, an
/// agent for what its workers print, and for one log file after the other, whose name below the log directory
/// follows.
inline constexpr std::string_view kStdinChannel = "stdin";
inline constexpr std::string_view kStdoutChannel = "stdout";
inline constexpr std::string_view kStderrChannel = "stderr";
inline constexpr std::string_view kFileChannel = "file ";
/// The reason with which the opener of such a channel closes it when everything has been sent.
inline constexpr std::string_view kAllWasSent = "all was sent";

/// Bytes of output or of a file that are sent at once. Small, so that a frame is one atomic write to a pipe:
/// an agent that is killed then never leaves half a frame behind.
inline constexpr std::size_t kLinkPieceBytes = 4000;
static_assert(kLinkPieceBytes <= rendezvous::kChannelRoomBytes, "whoever waits for room is told of enough");

}  // namespace muster::agent
