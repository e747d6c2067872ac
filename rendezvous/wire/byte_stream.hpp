// SPDX-License-Identifier: Apache-2.0
// A connected stream of bytes over any transport. Includes Asio.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace muster::rendezvous {

/// A local socket, TLS over TCP, pipes, or a channel of another session. Reads and writes throw
/// boost::system::system_error; asio::error::eof is an orderly end (the peer's FIN, with or without a
/// goodbye), any other error a broken transport.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  virtual boost::asio::awaitable<std::size_t> read_some(boost::asio::mutable_buffer buffer) = 0;
  virtual boost::asio::awaitable<void> write_all(boost::asio::const_buffer buffer) = 0;
  /// Ends reads and writes under way. The stream must live until they have returned.
  virtual void close() = 0;

  /// Closes without an orderly end, so that the peer sees a broken line.
  virtual void abort() { close(); }

  /// The stream's own address, numeric; empty for a local socket.
  virtual std::string local_address() const { return ""; }

  /// The bytes in one write that the stream takes whole or not at all, even if this process is killed
  /// meanwhile; it counts where another process may go on writing to the same stream. 0: no other process
  /// writes.
  virtual std::size_t atomic_write() const { return 0; }

 protected:
  ByteStream() = default;
};

/// Makes a stream of a connected socket of any family, and takes it over. Throws CoordinatorError
/// (environment) if the descriptor is no such socket; it is closed then as well.
std::unique_ptr<ByteStream> adopt_socket(const boost::asio::any_io_executor& executor, int connected_fd);

/// Makes a stream over descriptors that can be polled, and takes them over: `in` to read and `out` to write,
/// which may be the same one (a socket).
std::unique_ptr<ByteStream> make_descriptor_stream(const boost::asio::any_io_executor& executor, int in,
                                                   int out);

class Channel;

/// Makes a stream over a channel. Call it in the turn of the event loop in which the channel came or was
/// opened.
std::unique_ptr<ByteStream> make_channel_stream(const boost::asio::any_io_executor& executor,
                                                std::shared_ptr<Channel> channel);

}  // namespace muster::rendezvous
