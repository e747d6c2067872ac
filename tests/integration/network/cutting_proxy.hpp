// SPDX-License-Identifier: Apache-2.0
// A line between a client and the daemon that can be cut, go dead, or be ended.
#pragma once

#include "tests/integration/control/control_fixture.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <list>

namespace muster::rendezvous::test {

class CuttingProxy {
 public:
  using tcp = asio::ip::tcp;

  CuttingProxy(asio::io_context& context, const Endpoint& target)
      : context_(context),
        target_(asio::ip::make_address(target.host), static_cast<std::uint16_t>(target.port)),
        acceptor_(context, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)) {
    asio::co_spawn(context_, accept(), [](const std::exception_ptr&) {});
  }

  ~CuttingProxy() {
    acceptor_.close();
    cut();
  }

  Endpoint endpoint() const { return Endpoint{"127.0.0.1", acceptor_.local_endpoint().port()}; }

  /// Resets every connection, both ways, as a firewall does.
  void cut() {
    for (const auto& line : lines_)
      for (tcp::socket* socket : {&line->client, &line->server}) {
        boost::system::error_code ignored;
        socket->set_option(asio::socket_base::linger(true, 0), ignored);
        socket->close(ignored);
      }
    lines_.clear();
  }

  /// The connections there are now carry nothing any more, and nobody is told.
  void go_dead() {
    for (const auto& line : lines_) {
      line->dead = true;
      boost::system::error_code ignored;
      line->client.cancel(ignored);
      line->server.cancel(ignored);
    }
  }

  /// Where the server sees new connections come from; empty: the kernel's choice.
  std::string from;
  /// While set, new connections are reset at once.
  bool refuse = false;
  std::size_t connections = 0;
  std::size_t to_server = 0;
  std::size_t to_client = 0;

 private:
  struct Line {
    explicit Line(asio::io_context& context) : client(context), server(context) {}

    tcp::socket client;
    tcp::socket server;
    bool dead = false;
  };

  asio::awaitable<void> accept() {
    for (;;) {
      auto line = std::make_shared<Line>(context_);
      co_await acceptor_.async_accept(line->client, asio::use_awaitable);
      if (refuse) {
        boost::system::error_code ignored;
        line->client.set_option(asio::socket_base::linger(true, 0), ignored);
        continue;
      }
      line->server.open(tcp::v4());
      if (!from.empty()) line->server.bind(tcp::endpoint(asio::ip::make_address(from), 0));
      line->server.connect(target_);
      ++connections;
      lines_.push_back(line);
      asio::co_spawn(context_, pump(line, line->client, line->server, to_server),
                     [](const std::exception_ptr&) {});
      asio::co_spawn(context_, pump(line, line->server, line->client, to_client),
                     [](const std::exception_ptr&) {});
    }
  }

  static asio::awaitable<void> pump(std::shared_ptr<Line> line, tcp::socket& from, tcp::socket& to,
                                    std::size_t& counted) {
    std::array<char, 16384> buffer;
    for (;;) {
      boost::system::error_code error;
      auto token = asio::redirect_error(asio::use_awaitable, error);
      const std::size_t count = co_await from.async_read_some(asio::buffer(buffer), token);
      if (line->dead) co_return;
      if (error == asio::error::eof) to.shutdown(tcp::socket::shutdown_send, error);
      if (error || count == 0) co_return;
      counted += count;
      const asio::const_buffer bytes = asio::buffer(buffer.data(), count);
      co_await asio::async_write(to, bytes, token);
      if (error || line->dead) co_return;
    }
  }

  asio::io_context& context_;
  tcp::endpoint target_;
  tcp::acceptor acceptor_;
  std::list<std::shared_ptr<Line>> lines_;
};

}  // namespace muster::rendezvous::test
