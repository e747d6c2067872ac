// SPDX-License-Identifier: Apache-2.0
// The bytes below a link: a socket pair, the two ends of an ssh session, or a channel through the
// coordinator.
#pragma once

#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace muster::agent {

/// One thread, the executor's. No callback runs inside a call of this class, nor after close() or
/// destruction.
class ByteTransport {
 public:
  struct Events {
    std::function<void(std::string_view bytes)> bytes;
    /// Nothing more will come; what is queued cannot be sent any more either. At most once.
    std::function<void(const std::string& reason)> closed;
  };

  ByteTransport() = default;
  virtual ~ByteTransport() = default;
  ByteTransport(const ByteTransport&) = delete;
  ByteTransport& operator=(const ByteTransport&) = delete;

  /// Begins to read. Called once.
  virtual void start(Events events) = 0;
  /// Queues bytes; `written` (optional) runs when they have left this process, or cannot any more.
  virtual void write(std::string bytes, std::function<void()> written) = 0;
  virtual void close() = 0;
};

/// Over descriptors that poll: `in` to read and `out` to write, which may be the same one (a socket). Takes
/// them over. One write of the caller is one write to the descriptor, as long as it takes it whole.
std::unique_ptr<ByteTransport> make_descriptor_transport(const boost::asio::any_io_executor& executor, int in,
                                                         int out);

/// Call it in the turn of the event loop in which the channel came or was opened. Bytes beyond what the
/// channel takes now wait here; the link's own windows bound them.
std::unique_ptr<ByteTransport> make_channel_transport(const boost::asio::any_io_executor& executor,
                                                      std::shared_ptr<rendezvous::Channel> channel);

}  // namespace muster::agent
