// SPDX-License-Identifier: Apache-2.0
// What a control session keeps so that it can go on over another connection: nothing lost, nothing doubled.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace muster::rendezvous {

/// Both ends number what they send from 1, keep it until the other end says that it has come, and send the
/// rest again over a new connection. One thread.
class SessionLedger {
 public:
  /// Keeps a numbered frame that is being sent.
  void sent(std::string frame);
  /// The peer has got `count` of our frames. Throws CoordinatorError (mend) if we have not sent as many; an
  /// older count than the last is no news.
  void acknowledged(std::uint64_t count);
  /// Returns the frames to send again over a new connection whose peer has got `count`, in order. Throws as
  /// acknowledged(), and when frames are asked for that were acknowledged before.
  std::string to_send_again(std::uint64_t count);

  /// Bytes kept.
  std::size_t kept_bytes() const { return kept_bytes_; }

  /// A numbered frame of the peer has come.
  void received(std::size_t bytes);

  /// How many frames have come, which the peer is to be told.
  std::uint64_t received_count() const { return received_; }

  /// The peer should be told now, without waiting for a heartbeat.
  bool ack_due() const;

  /// The peer is being told received_count().
  void told() { untold_bytes_ = 0; }

 private:
  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  /// Number of the last frame that was acknowledged.
  std::uint64_t acknowledged_ = 0;
  std::uint64_t received_ = 0;
  std::size_t untold_bytes_ = 0;
};

}  // namespace muster::rendezvous
