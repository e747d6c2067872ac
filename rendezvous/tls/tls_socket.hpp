// SPDX-License-Identifier: Apache-2.0
// A TCP socket with OpenSSL on top of it, on an event loop. Includes Asio.
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

/// OpenSSL reads and writes the socket itself; the event loop only says when it can. One read and one write
/// may be under way at a time. One thread at a time.
class TlsSocket final : public ByteStream {
 public:
  /// `fd`: connected, or connecting and then waited for with wait_connected().
  TlsSocket(const boost::asio::any_io_executor& executor, UniqueFd fd, int family);
  ~TlsSocket() override;

  int fd() { return socket_ ? socket_->native_handle() : loose_.get(); }

  /// Lets go of its event loop: nothing may be under way. Then it may be taken to another thread.
  void detach();
  /// Goes on with this event loop. Throws boost::system::system_error if that cannot watch the socket.
  void attach(const boost::asio::any_io_executor& executor);

  /// Errno of a connection under way: 0 when it stands, ETIMEDOUT at `deadline`.
  boost::asio::awaitable<int> wait_connected(TimePoint deadline);

  enum class Outcome {
    done,
    late,     ///< not by the deadline
    ended,    ///< the peer closed or reset the connection
    refused,  ///< the peer said no, or did not prove what it must, or speaks something else
  };

  /// `why` is set unless done; `on_wait` is called before each wait for the peer and says whether to wait.
  /// Call once.
  boost::asio::awaitable<Outcome> shake_hands(SslHandle ssl, TimePoint deadline, std::string& why,
                                              std::function<bool()> on_wait = {});

  /// The first words of a server without TLS, after the outcome `refused`.
  std::string first_words() const { return rendezvous::first_words(ssl_.get()); }

  boost::asio::awaitable<std::size_t> read_some(boost::asio::mutable_buffer buffer) override;
  boost::asio::awaitable<void> write_all(boost::asio::const_buffer buffer) override;
  /// Says goodbye if the socket takes it at once.
  void close() override;
  void abort() override;
  std::string local_address() const override;

 private:
  /// Waits until the socket can do what OpenSSL wants; false if OpenSSL wants nothing but has failed or
  /// ended.
  boost::asio::awaitable<bool> wait_for(int ssl_error);
  [[noreturn]] void throw_end(int ssl_error, int error);
  bool was_reset();

  boost::asio::any_io_executor executor_;
  int family_;
  /// None between detach() and attach().
  std::optional<boost::asio::generic::stream_protocol::socket> socket_;
  UniqueFd loose_;
  SslHandle ssl_;
  /// Read without giving way to others.
  std::size_t read_in_a_row_ = 0;
  bool shaken_ = false;
  /// The error number of the first write that failed. EPIPE: the peer had ended the connection before
  /// anything was reset.
  int write_error_ = 0;
  bool closed_ = false;
};

/// TCP_NODELAY, and the end of a connection whose data nobody acknowledges for kDeadAfter.
void set_tcp_options(int fd);

}  // namespace muster::rendezvous
