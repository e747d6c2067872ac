// SPDX-License-Identifier: Apache-2.0
// Link messages read and written one by one, as asides, where there is no event loop or no session.
#pragma once

#include "agent/core/link_message.hpp"
#include "rendezvous/wire/frame.hpp"

#include <chrono>
#include <functional>
#include <string_view>

namespace muster::agent {

using FrameDeadline = std::chrono::steady_clock::time_point;

/// Reads exactly one message from `fd` and not a byte beyond it. Blocks, whether or not `fd` does. Throws
/// std::runtime_error when the deadline passes, the other end closes or sends what no muster sends; the text
/// names what was waited for.
LinkMessage read_link_message(int fd, FrameDeadline deadline, std::string_view waiting_for);

/// Writes all of `bytes`; throws std::runtime_error when the deadline passes or the other end is gone.
void write_bytes(int fd, std::string_view bytes, FrameDeadline deadline);

void write_link_message(int fd, const LinkMessage& message, FrameDeadline deadline);

/// Takes apart what write_link_message() wrote into a pipe.
class LinkMessageReader {
 public:
  /// Hands out the messages that have come on `fd`, which must not block. Returns whether more may come.
  /// Throws std::exception for bytes that no muster writes.
  bool read(int fd, const std::function<void(const LinkMessage&)>& take);

 private:
  rendezvous::FrameDecoder decoder_{rendezvous::kMaxControlFrameBytes};
};

}  // namespace muster::agent
