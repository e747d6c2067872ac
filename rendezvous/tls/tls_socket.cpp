// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/tls_socket.hpp"

#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;

/// The bytes read from one peer before the others get their turn.
constexpr std::size_t kReadInARow = 64 * kKiB;

int clamp(std::size_t size) {
  return static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
}

/// Cancels the socket's wait at a deadline.
class Deadline {
 public:
  Deadline(Socket& socket, TimePoint at) : timer_(socket.get_executor(), at) {
    timer_.async_wait([&socket, passed = passed_](boost::system::error_code error) {
      if (error || *passed) return;
      *passed = true;
      boost::system::error_code ignored;
      socket.cancel(ignored);
    });
  }

  /// An expiry that is queued already must not touch the socket any more.
  ~Deadline() { *passed_ = true; }

  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  bool passed() const { return *passed_; }

 private:
  asio::steady_timer timer_;
  std::shared_ptr<bool> passed_ = std::make_shared<bool>(false);
};

}  // namespace

void set_tcp_options(int fd) {
  const int on = 1;
  // TCP_RTO_MAX_MS, which linux/tcp.h has since 6.15. Each repetition waits twice as long as the one before:
  // on a link that comes and goes the fifth would be too late, though the link is there.
  constexpr int kLongestRepetition = 44;
  const int second_ms = 1000;
  ::setsockopt(fd, IPPROTO_TCP, kLongestRepetition, &second_ms, sizeof(second_ms));
  const auto patience = static_cast<unsigned>(kDeadAfter.count());
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof(patience));
}

TlsSocket::TlsSocket(const asio::any_io_executor& executor, UniqueFd fd, int family)
    : executor_(executor), family_(family), loose_(std::move(fd)) {
  attach(executor);
}

TlsSocket::~TlsSocket() {
  close();
}

void TlsSocket::detach() {
  loose_.reset(socket_->release());
  socket_.reset();
}

void TlsSocket::attach(const asio::any_io_executor& executor) {
  Socket socket(executor);
  // The kernel may have no room to watch another socket; then this one stays detached and is ours to close.
  socket.assign(asio::generic::stream_protocol(family_, IPPROTO_TCP), loose_.get());
  (void)loose_.release();
  socket_.emplace(std::move(socket));
  executor_ = executor;
}

asio::awaitable<int> TlsSocket::wait_connected(TimePoint deadline) {
  const Deadline limit(*socket_, deadline);
  boost::system::error_code error;
  co_await socket_->async_wait(Socket::wait_write, asio::redirect_error(asio::use_awaitable, error));
  if (limit.passed()) co_return ETIMEDOUT;
  if (error) co_return error.value();
  int result = 0;
  socklen_t size = sizeof(result);
  ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &result, &size);
  co_return result;
}

asio::awaitable<TlsSocket::Outcome> TlsSocket::shake_hands(SslHandle ssl, TimePoint deadline,
                                                           std::string& why, std::function<bool()> on_wait) {
  ssl_ = std::move(ssl);
  const Deadline limit(*socket_, deadline);
  for (;;) {
    ERR_clear_error();
    errno = 0;
    const int result = SSL_do_handshake(ssl_.get());
    const int error = errno;
    if (result == 1) break;
    const int wanted = SSL_get_error(ssl_.get(), result);
    if (wanted == SSL_ERROR_SSL && !is_unannounced_end()) {
      why = take_ssl_error();
      co_return Outcome::refused;
    }
    if (error == EMSGSIZE) {
      why = "its first message is longer than " + std::to_string(kMaxHelloFrameBytes) + " bytes";
      co_return Outcome::refused;
    }
    if (wanted == SSL_ERROR_WANT_READ && on_wait && !on_wait()) {
      why = "its first message was played back, or too many come at once";
      co_return Outcome::refused;
    }
    const bool again = co_await wait_for(wanted);
    if (again && !limit.passed()) continue;
    why = limit.passed() ? "no answer in time"
          : error != 0   ? std::strerror(error)
                         : "the peer closed the connection";
    co_return limit.passed() ? Outcome::late : Outcome::ended;
  }
  SSL_set_app_data(ssl_.get(), nullptr);
  shaken_ = is_ours(ssl_.get());
  if (!shaken_) why = "the peer proved no key";
  co_return shaken_ ? Outcome::done : Outcome::refused;
}

asio::awaitable<bool> TlsSocket::wait_for(int ssl_error) {
  if (closed_ || (ssl_error != SSL_ERROR_WANT_READ && ssl_error != SSL_ERROR_WANT_WRITE)) co_return false;
  read_in_a_row_ = 0;
  const auto what = ssl_error == SSL_ERROR_WANT_READ ? Socket::wait_read : Socket::wait_write;
  boost::system::error_code error;
  co_await socket_->async_wait(what, asio::redirect_error(asio::use_awaitable, error));
  co_return !error && !closed_;
}

asio::awaitable<std::size_t> TlsSocket::read_some(asio::mutable_buffer buffer) {
  if (read_in_a_row_ >= kReadInARow) {
    read_in_a_row_ = 0;
    co_await asio::post(executor_, asio::use_awaitable);
  }
  while (!closed_) {
    ERR_clear_error();
    errno = 0;
    const int result = SSL_read(ssl_.get(), buffer.data(), clamp(buffer.size()));
    const int error = errno;
    if (result > 0) {
      read_in_a_row_ += static_cast<std::size_t>(result);
      co_return static_cast<std::size_t>(result);
    }
    const int wanted = SSL_get_error(ssl_.get(), result);
    const bool again = co_await wait_for(wanted);
    if (!again && !closed_) throw_end(wanted, error);
  }
  throw boost::system::system_error(asio::error::operation_aborted);
}

asio::awaitable<void> TlsSocket::write_all(asio::const_buffer buffer) {
  while (buffer.size() > 0 && !closed_) {
    ERR_clear_error();
    errno = 0;
    const int result = SSL_write(ssl_.get(), buffer.data(), clamp(buffer.size()));
    const int error = errno;
    if (result > 0) {
      buffer += static_cast<std::size_t>(result);
      continue;
    }
    const int wanted = SSL_get_error(ssl_.get(), result);
    if (wanted == SSL_ERROR_SYSCALL && write_error_ == 0) write_error_ = error;
    const bool again = co_await wait_for(wanted);
    if (!again && !closed_) throw_end(wanted, error);
  }
  if (closed_) throw boost::system::system_error(asio::error::operation_aborted);
}

void TlsSocket::throw_end(int ssl_error, int error) {
  // OpenSSL must not be used again after a fatal error, not even for a goodbye.
  if (ssl_error == SSL_ERROR_SSL || ssl_error == SSL_ERROR_SYSCALL) shaken_ = false;
  const bool ended = is_unannounced_end() || (ssl_error == SSL_ERROR_SYSCALL && error == 0);
  boost::system::error_code code = asio::error::eof;
  if (ended && was_reset())
    code = asio::error::connection_reset;
  else if (ssl_error == SSL_ERROR_SYSCALL && error != 0)
    code.assign(error, boost::system::system_category());
  else if (ssl_error == SSL_ERROR_SSL && !ended)
    code.assign(EPROTO, boost::system::system_category());
  throw boost::system::system_error(code, take_ssl_error());
}

/// Whether the connection ended by a reset. A write that met the reset has consumed its error, and a read
/// then sees a plain end; the state of the connection still tells the two apart. Data written to a peer that
/// has ended the connection is answered with a reset as well: its error is EPIPE, and it counts as the plain
/// end that came before.
bool TlsSocket::was_reset() {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state != TCP_CLOSE)
    return false;
  int pending = 0;
  size = sizeof(pending);
  ::getsockopt(fd(), SOL_SOCKET, SO_ERROR, &pending, &size);
  return pending != EPIPE && write_error_ != EPIPE;
}

std::string TlsSocket::local_address() const {
  if (!socket_) return "";
  boost::system::error_code error;
  const auto end = socket_->local_endpoint(error);
  if (error) return "";
  return SocketAddress(end.data(), static_cast<socklen_t>(end.size())).host();
}

void TlsSocket::close() {
  if (closed_) return;
  closed_ = true;
  ERR_clear_error();
  if (shaken_) SSL_shutdown(ssl_.get());
  boost::system::error_code ignored;  // a socket that cannot be closed is gone already
  if (socket_) socket_->close(ignored);
  loose_.reset();
}

void TlsSocket::abort() {
  if (closed_) return;
  shaken_ = false;
  const linger at_once{1, 0};
  ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close();
}

}  // namespace muster::rendezvous
