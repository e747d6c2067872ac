// SPDX-License-Identifier: Apache-2.0
// A flow-controlled stream of bytes inside a control connection, in both directions. No Asio.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace muster::rendezvous {

/// One channel, used on the control connection's thread only. After the connection is resumed the channel
/// goes on where it was: no byte is lost or doubled. Hold it by shared_ptr; dropping the last pointer closes
/// it.
class Channel {
 public:
  /// Told about the channel, from the executor, never from inside a call of the channel. Set the handlers
  /// before the next turn of the event loop.
  struct Handlers {
    /// Takes bytes. Each byte is to be given back with consumed(), sooner or later; the peer sends at most
    /// kChannelCreditBytes ahead.
    std::function<void(std::string_view bytes)> data;
    /// Tells that writable() is kChannelRoomBytes or more again, after it was less when it was asked for or
    /// used up.
    std::function<void()> writable;
    /// Told once and last: the peer closed the channel, or the control connection is lost. Not after close().
    std::function<void(const std::string& reason)> closed;
  };

  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  virtual void handle(Handlers handlers) = 0;
  /// The number of bytes that send() may be given now.
  virtual std::size_t writable() const = 0;
  /// Sends at most writable() bytes; more is an error of the caller (std::logic_error).
  virtual void send(std::string_view bytes) = 0;
  /// Gives back `bytes` that data() brought and that have been dealt with; the peer may send as many more.
  virtual void consumed(std::size_t bytes) = 0;
  /// Closes the channel after all that was sent before. No handler is called any more.
  virtual void close(const std::string& reason) = 0;

 protected:
  Channel() = default;
};

/// Passes the bytes of each channel on to the other, as fast as the other takes them: a byte is given back to
/// its sender when it has been passed on. When one channel ends, the other is closed. The pair keeps itself
/// alive until then.
void relay(std::shared_ptr<Channel> one, std::shared_ptr<Channel> other);

}  // namespace muster::rendezvous
