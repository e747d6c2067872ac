// SPDX-License-Identifier: Apache-2.0
// Carries the messages of a link over one transport after another, with no message lost or doubled. Pure.
#pragma once

#include "agent/core/link_message.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// One side's state. Messages count from 1 in each direction, in the order in which they are sent, so that
/// they need no number on the wire; they are kept until the other side has acknowledged them. On the first
/// transport sending begins at once; on each later one both sides first say how far they have received
/// (`resume`), and send again what the other has not got. All payloads are those of frames.
class LinkSession {
 public:
  /// Payload bytes kept before they are acknowledged; more is an error, for the windows above bound what is
  /// bulk.
  static constexpr std::size_t kKeptMax = std::size_t{16} << 20;
  /// An acknowledgement is due after so many received payload bytes, or messages; at once for a report and
  /// what follows it, since the agent waits for it before it ends.
  static constexpr std::size_t kAckBytes = std::size_t{64} << 10;
  static constexpr std::size_t kAckMessages = 64;

  /// Takes a message to send. Returns the payload to write now; nothing while the other side's `resume` is
  /// awaited. Throws std::length_error when too much is kept.
  std::optional<std::string> send(const LinkMessage& message);

  struct Received {
    /// The message to act upon; nothing where it concerned the link itself.
    std::optional<LinkMessage> message;
    /// Payloads to write now, in this order, before anything else.
    std::vector<std::string> replies;
  };

  /// Takes one payload. Throws std::invalid_argument if no muster sends that.
  Received receive(std::string_view payload);

  /// The transport is gone: what is sent from now on waits for the next one.
  void transport_lost() { awaiting_resume_ = true; }

  /// The transport has changed: what the old one still delivers must not come here any more. Returns the
  /// payload that is the first to write on the new one.
  std::string moved();

  std::uint64_t received() const { return received_; }

  /// Numbered messages that send() has taken, and how many of them the other side has.
  std::uint64_t sent() const { return first_kept_ - 1 + kept_.size(); }

  std::uint64_t acknowledged() const { return first_kept_ - 1; }

  /// The acknowledgement to write when the link is idle; nothing if all that came is acknowledged.
  std::optional<std::string> idle_ack();

 private:
  void acknowledge(std::int64_t number);
  std::string ack();

  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  /// Number of kept_.front().
  std::uint64_t first_kept_ = 1;
  std::uint64_t received_ = 0;
  std::uint64_t acked_ = 0;
  std::size_t unacked_bytes_ = 0;
  bool awaiting_resume_ = false;
};

}  // namespace muster::agent
