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

/// One thread, the control connection's. A resumed connection goes on where it was: nothing of a channel is
/// lost or doubled. Hold it by shared_ptr; dropping the last one closes it.
class Channel {
 public:
  /// Called from the executor, never from inside a call of the channel. Set them before the next turn of the
  /// event loop.
  struct Handlers {
    /// Each byte is to be given back with consumed(), sooner or later; the peer sends at most
    /// kChannelCreditBytes ahead.
    std::function<void(std::string_view bytes)> data;
    /// writable() is kChannelRoomBytes or more again, after it was less when it was asked for or used up.
    std::function<void()> writable;
    /// Once: the peer closed it, or the control connection is lost. Nothing follows. Not after close().
    std::function<void(const std::string& reason)> closed;
  };

  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  virtual void handle(Handlers handlers) = 0;
  /// Bytes that send() may be given now.
  virtual std::size_t writable() const = 0;
  /// At most writable() bytes: more is an error of the caller (std::logic_error).
  virtual void send(std::string_view bytes) = 0;
  /// `bytes` of what data() brought have been dealt with, and the peer may send as many more.
  virtual void consumed(std::size_t bytes) = 0;
  /// Closes the channel after all that was sent before. Handlers are not called any more.
  virtual void close(const std::string& reason) = 0;

 protected:
  Channel() = default;
};

/// Passes on what comes from either to the other, as fast as that takes it: a byte is given back to its
/// sender when it has been passed on. The end of one is the end of the other. The pair keeps itself alive
/// until then.
void relay(std::shared_ptr<Channel> one, std::shared_ptr<Channel> other);

}  // namespace muster::rendezvous
