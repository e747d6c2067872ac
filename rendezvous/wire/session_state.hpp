// SPDX-License-Identifier: Apache-2.0
// What one end of a session knows, so that it can go on over another stream with nothing lost or doubled, and
// so that no channel fills its receiver: numbers, what is kept, windows. Events in, frames out. Pure.
#pragma once

#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/wire/frame.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// Both ends count the numbered frames of each direction from 1, keep what they send until the other end says
/// that it has come, and send the rest again over a new stream. A channel's sender starts with
/// kChannelCreditBytes, and gets as many bytes again as its receiver has dealt with. All that the peer must
/// not do throws CoordinatorError (mend). One thread.
class SessionState {
 public:
  /// `resumable`: false for a session that ends with its stream, of which nothing is kept. `dialled`: this
  /// side opens channels with odd numbers, the other one those with even ones.
  SessionState(bool resumable, bool dialled)
      : resumable_(resumable), dialled_(dialled), next_channel_(dialled ? 1 : 2) {}

  // What this side sends.

  /// Returns the frame as it is to be written, and keeps it if it is numbered.
  std::string send(const Frame& frame);

  /// Numbered frames that send() has taken, and how many of them the peer has.
  std::uint64_t sent() const { return acknowledged_ + kept_.size(); }

  std::uint64_t acknowledged() const { return acknowledged_; }

  std::size_t kept_bytes() const { return kept_bytes_; }

  /// A stream whose peer has got `count` carries the session from now on: returns the frames to write to it,
  /// in order.
  const std::deque<std::string>& resumed(std::uint64_t count);

  // What comes.

  /// Takes the body of a frame: counts it, and notes what it says about our own frames and about windows.
  Frame receive(std::string_view body);

  std::uint64_t received() const { return received_; }

  /// The peer should be told received() at once, and not only after a while.
  bool ack_due() const;

  /// The peer has not been told of all that came.
  bool ack_owed() const { return resumable_ && told_ != received_; }

  /// The peer is being told received(), which is returned.
  std::uint64_t tell_received();

  // Channels. A number that is not open has no credit, and what comes for it is passed over.

  /// Opens a channel, of which send() is then to tell the peer.
  std::uint32_t open_channel();

  /// Closed from here: what is still under way to it finds no channel.
  void close_channel(std::uint32_t channel) { channels_.erase(channel); }

  std::size_t open_channels() const { return channels_.size(); }

  /// Bytes that may be sent through it now.
  std::size_t credit(std::uint32_t channel) const;

  /// This side has dealt with so many of its bytes. Returns the frame that gives them back to the sender;
  /// none while they are few.
  std::optional<std::string> consumed(std::uint32_t channel, std::size_t bytes);

 private:
  struct Window {
    /// What we may send.
    std::size_t credit = kChannelCreditBytes;
    /// What the peer may send.
    std::size_t granted = kChannelCreditBytes;
    /// Dealt with and not given back yet.
    std::size_t owed = 0;
  };

  void acknowledge(std::uint64_t count);
  void receive_channel(const Frame& frame);

  bool resumable_;
  bool dialled_;
  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  /// Number of the last frame that was acknowledged.
  std::uint64_t acknowledged_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t told_ = 0;
  std::size_t untold_bytes_ = 0;
  std::uint32_t next_channel_;
  std::map<std::uint32_t, Window> channels_;
};

}  // namespace muster::rendezvous
