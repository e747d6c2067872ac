// SPDX-License-Identifier: Apache-2.0
// A connected stream of bytes, whatever carries it. Includes Asio.
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
/// goodbye), anything else a broken transport.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  virtual boost::asio::awaitable<std::size_t> read_some(boost::asio::mutable_buffer buffer) = 0;
  virtual boost::asio::awaitable<void> write_all(boost::asio::const_buffer buffer) = 0;
  /// Ends reads and writes under way. The stream must live until they have returned.
  virtual void close() = 0;

  /// Closes without an orderly end: the peer is to see a broken line, not one that was ended.
  virtual void abort() { close(); }

  /// Numeric; empty for a local socket.
  virtual std::string local_address() const { return ""; }

  /// Bytes in one write that it takes whole or not at all, even if this process is killed meanwhile: somebody
  /// else may go on writing behind it. 0: nobody does.
  virtual std::size_t atomic_write() const { return 0; }

 protected:
  ByteStream() = default;
};

/// Takes ownership of a connected stream socket of any family. Throws CoordinatorError (environment) if it is
/// none; the descriptor is closed then too.
std::unique_ptr<ByteStream> adopt_socket(const boost::asio::any_io_executor& executor, int connected_fd);

/// Over descriptors that poll, which are taken over: `in` to read and `out` to write, which may be the same
/// one (a socket).
std::unique_ptr<ByteStream> make_descriptor_stream(const boost::asio::any_io_executor& executor, int in,
                                                   int out);

class Channel;

/// Call it in the turn of the event loop in which the channel came or was opened.
std::unique_ptr<ByteStream> make_channel_stream(const boost::asio::any_io_executor& executor,
                                                std::shared_ptr<Channel> channel);

}  // namespace muster::rendezvous
