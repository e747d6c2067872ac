// SPDX-License-Identifier: Apache-2.0
// What launcher and agent say to each other over their private connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::agent {

/// One message. On the wire it is the payload of one frame (rendezvous/wire/frame.hpp): a line
/// "<kind> <number>\n", then the body, which may hold any bytes.
struct LinkMessage {
  enum class Kind {
    // The first messages of a started node, and its guardian's last: asides, since the agent that counts is
    // not there. hello, listening: node -> launcher.
    hello,      ///< body is the JSON of a NodeHello
    key,        ///< the node's key; on the coordinator's node the job secret follows it; number: how many
    spec,       ///< body is the JSON of an AgentSpec
    listening,  ///< the coordinator listens; body is the JSON of a LinkEndpoint
    notice,     ///< number 1: the guardian's last words; nothing but the end follows

    // launcher -> agent
    coordinator,  ///< where the coordinator is: the JSON of a LinkEndpoint
    stop,         ///< end the job in an orderly way; number is the signal for the workers
    kill,         ///< end the job without grace
    resize,       ///< the terminal has a new size
    taken,        ///< the launcher has written `number` bytes of output and files
    input,        ///< bytes for the worker that reads stdin; an empty body is their end

    // agent -> launcher
    log,          ///< a line for the launcher's log
    status,       ///< what the node waits for, a text for people
    output,       ///< bytes for the console; number 1: stdout, 2: stderr
    input_taken,  ///< the worker has read `number` bytes of input
    file,         ///< a piece of a log file: a FilePiece (link_text.hpp)
    report,       ///< last but `bye`: body is the JSON of a NodeReport
    bye,          ///< nothing follows
  };
  Kind kind = Kind::kill;
  std::int64_t number = 0;
  std::string body;
};

std::string encode(const LinkMessage& message);

/// Throws std::invalid_argument for anything that encode() does not write.
LinkMessage decode_link_message(std::string_view payload);

/// Bytes of output or of a file in one message. Small, so that a message is one atomic write to a pipe: an
/// agent that is killed then never leaves half a message behind.
inline constexpr std::size_t kLinkPieceBytes = 4000;

/// Bytes of output and files that an agent may have sent beyond what the launcher has `taken`; bytes of input
/// that the launcher may have sent beyond what was `input_taken`.
inline constexpr std::int64_t kLinkWindowBytes = std::int64_t{1} << 20;

}  // namespace muster::agent
