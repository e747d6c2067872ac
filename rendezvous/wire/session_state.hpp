// SPDX-License-Identifier: Apache-2.0
// The state of one end of a session: numbers of frames, kept frames, windows of channels. With it the session
// can go on over another stream with nothing lost or doubled, and no channel fills its receiver. Events in,
// frames out. Pure.
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

/// One end of a session. Both ends count the numbered frames of each direction from 1, keep the frames they
/// send until the other end acknowledges them, and send the rest again over a new stream. A channel's sender
/// starts with kChannelCreditBytes, and gets as many bytes again as its receiver has dealt with. If the peer
/// does anything that it must not do, the call throws CoordinatorError (mend). One thread.
class SessionState {
 public:
  /// `resumable`: false for a session that ends with its stream and keeps no frames. `dialled`: this side
  /// opens channels with odd numbers, the other side those with even ones.
  SessionState(bool resumable, bool dialled)
      : resumable_(resumable), dialled_(dialled), next_channel_(dialled ? 1 : 2) {}

  // The following calls are about frames that this side sends.

  /// Returns the frame as it is to be written, and keeps it if it is numbered.
  std::string send(const Frame& frame);

  /// The number of numbered frames that send() has taken; acknowledged() says how many of them the peer has.
  std::uint64_t sent() const { return acknowledged_ + kept_.size(); }

  std::uint64_t acknowledged() const { return acknowledged_; }

  std::size_t kept_bytes() const { return kept_bytes_; }

  /// Tells that a stream whose peer has received `count` frames carries the session from now on; returns the
  /// frames to write to it, in order.
  const std::deque<std::string>& resumed(std::uint64_t count);

  // The following calls are about frames that the peer sends.

  /// Takes the body of a frame: counts it, and notes what it says about our own frames and about windows.
  Frame receive(std::string_view body);

  std::uint64_t received() const { return received_; }

  /// Whether the peer should be told received() at once, and not only after a while.
  bool ack_due() const;

  /// Whether the peer has not been told yet of all frames that came.
  bool ack_owed() const { return resumable_ && told_ != received_; }

  /// Notes that the peer is being told received(), and returns that number.
  std::uint64_t tell_received();

  // The following calls are about channels. A channel that is not open has no credit, and frames for it are
  // ignored.

  /// Opens a channel; the caller then tells the peer by send().
  std::uint32_t open_channel();

  /// Closes a channel from this side; frames that are still on their way to it are ignored.
  void close_channel(std::uint32_t channel) { channels_.erase(channel); }

  std::size_t open_channels() const { return channels_.size(); }

  /// The number of bytes that may be sent through the channel now.
  std::size_t credit(std::uint32_t channel) const;

  /// Tells that this side has dealt with `bytes` bytes of the channel. Returns the frame that gives them back
  /// to the sender; none while they are few.
  std::optional<std::string> consumed(std::uint32_t channel, std::size_t bytes);

 private:
  struct Window {
    /// The bytes that we may still send.
    std::size_t credit = kChannelCreditBytes;
    /// The bytes that the peer may still send.
    std::size_t granted = kChannelCreditBytes;
    /// The bytes that were dealt with and not given back yet.
    std::size_t owed = 0;
  };

  void acknowledge(std::uint64_t count);
  void receive_channel(const Frame& frame);

  bool resumable_;
  bool dialled_;
  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  /// The number of the last frame that was acknowledged.
  std::uint64_t acknowledged_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t told_ = 0;
  std::size_t untold_bytes_ = 0;
  std::uint32_t next_channel_;
  std::map<std::uint32_t, Window> channels_;
};

}  // namespace muster::rendezvous
