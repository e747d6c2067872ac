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

/// A local socket, or TLS over TCP. Reads and writes throw boost::system::system_error; asio::error::eof is
/// an orderly end (the peer's FIN, with or without a goodbye), anything else a broken transport.
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

 protected:
  ByteStream() = default;
};

/// Takes ownership of a connected stream socket of any family. Throws CoordinatorError (environment) if it is
/// none; the descriptor is closed then too.
std::unique_ptr<ByteStream> adopt_socket(const boost::asio::any_io_executor& executor, int connected_fd);

}  // namespace muster::rendezvous
