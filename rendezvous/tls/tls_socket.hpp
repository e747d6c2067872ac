// SPDX-License-Identifier: Apache-2.0
// A TCP socket with TLS on an event loop. Includes Asio.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/tls/tls_context.hpp"
#include "rendezvous/wire/byte_stream.hpp"

#include <boost/asio/generic/stream_protocol.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace muster::rendezvous {

/// A stream on which OpenSSL reads and writes the socket itself; the event loop only says when the socket is
/// ready. One read and one write may be under way at a time. One thread at a time.
class TlsSocket final : public ByteStream {
 public:
  /// `fd`: a connected socket, or a connecting one that wait_connected() then waits for.
  TlsSocket(const boost::asio::any_io_executor& executor, UniqueFd fd, int family);
  ~TlsSocket() override;

  int fd() { return socket_ ? socket_->native_handle() : loose_.get(); }

  /// Lets go of the event loop, while no operation is under way. Then the socket may be taken to another
  /// thread.
  void detach();
  /// Goes on with this event loop. Throws boost::system::system_error if the loop cannot watch the socket.
  void attach(const boost::asio::any_io_executor& executor);

  /// The errno of a connection attempt: 0 when connected, ETIMEDOUT at `deadline`.
  boost::asio::awaitable<int> wait_connected(TimePoint deadline);

  enum class Outcome {
    done,
    late,     ///< the handshake was not complete by the deadline
    ended,    ///< the peer closed or reset the connection
    refused,  ///< the peer refused, did not prove what it must, or speaks something else
  };

  /// Runs the handshake. `why` is set unless the outcome is `done`; `on_wait` is called before each wait for
  /// the peer and says whether to wait. Call once.
  boost::asio::awaitable<Outcome> shake_hands(SslHandle ssl, TimePoint deadline, std::string& why,
                                              std::function<bool()> on_wait = {});

  /// The first words of a server without TLS, after the outcome `refused`.
  std::string first_words() const { return rendezvous::first_words(ssl_.get()); }

  boost::asio::awaitable<std::size_t> read_some(boost::asio::mutable_buffer buffer) override;
  boost::asio::awaitable<void> write_all(boost::asio::const_buffer buffer) override;
  /// Closes the stream, after a goodbye if the socket takes it at once.
  void close() override;
  void abort() override;
  std::string local_address() const override;

 private:
  /// Waits until the socket can do what OpenSSL wants; false if OpenSSL has failed or ended and wants
  /// nothing.
  boost::asio::awaitable<bool> wait_for(int ssl_error);
  [[noreturn]] void throw_end(int ssl_error, int error);
  bool was_reset();

  boost::asio::any_io_executor executor_;
  int family_;
  /// The socket on an event loop; none between detach() and attach().
  std::optional<boost::asio::generic::stream_protocol::socket> socket_;
  UniqueFd loose_;
  SslHandle ssl_;
  /// The bytes read without giving way to other connections.
  std::size_t read_in_a_row_ = 0;
  bool shaken_ = false;
  /// The error number of the first write that failed. EPIPE: the peer had ended the connection before
  /// anything was reset.
  int write_error_ = 0;
  bool closed_ = false;
};

/// Sets TCP_NODELAY, and a limit of kDeadAfter after which a connection ends whose data is not acknowledged;
/// from Linux 6.15 on such data is repeated at least once a second, earlier kernels wait twice as long each
/// time.
void set_tcp_options(int fd);

}  // namespace muster::rendezvous
