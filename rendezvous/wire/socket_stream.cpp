// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/wire/byte_stream.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(asio::generic::stream_protocol::socket socket) : socket_(std::move(socket)) {}

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer buffer) override {
    return socket_.async_read_some(buffer, asio::use_awaitable);
  }

  asio::awaitable<void> write_all(asio::const_buffer buffer) override {
    co_await asio::async_write(socket_, buffer, asio::use_awaitable);
  }

  void close() override {
    boost::system::error_code ignored;  // a socket that cannot be closed is gone already
    socket_.close(ignored);
  }

 private:
  asio::generic::stream_protocol::socket socket_;
};

}  // namespace

std::unique_ptr<ByteStream> adopt_socket(const asio::any_io_executor& executor, int connected_fd) {
  UniqueFd fd(connected_fd);
  int family = 0;
  socklen_t size = sizeof family;
  if (::getsockopt(connected_fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) {
    const std::string cause = std::strerror(errno);
    throw CoordinatorError(Errc::environment, "descriptor " + std::to_string(connected_fd) +
                                                  " is no control connection: " + cause);
  }
  asio::generic::stream_protocol::socket socket(executor);
  socket.assign(asio::generic::stream_protocol(family, 0), connected_fd);
  (void)fd.release();
  return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace muster::rendezvous
