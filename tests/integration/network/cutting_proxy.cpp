// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/network/cutting_proxy.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <list>

namespace muster::rendezvous::test {
namespace {

using tcp = asio::ip::tcp;

struct Line {
  explicit Line(asio::io_context& context) : client(context), server(context) {}

  tcp::socket client;
  tcp::socket server;
  bool dead = false;
};

asio::awaitable<void> pump(std::shared_ptr<Line> line, tcp::socket& from, tcp::socket& to,
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

}  // namespace

struct CuttingProxy::Lines {
  Lines(CuttingProxy& owner, asio::io_context& loop, const Endpoint& where)
      : proxy(owner),
        context(loop),
        target(asio::ip::make_address(where.host), static_cast<std::uint16_t>(where.port)),
        acceptor(loop, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)) {}

  asio::awaitable<void> accept() {
    for (;;) {
      auto line = std::make_shared<Line>(context);
      co_await acceptor.async_accept(line->client, asio::use_awaitable);
      if (proxy.refuse) {
        boost::system::error_code ignored;
        line->client.set_option(asio::socket_base::linger(true, 0), ignored);
        continue;
      }
      line->server.open(tcp::v4());
      if (!proxy.from.empty()) line->server.bind(tcp::endpoint(asio::ip::make_address(proxy.from), 0));
      line->server.connect(target);
      ++proxy.connections;
      open.push_back(line);
      asio::co_spawn(context, pump(line, line->client, line->server, proxy.to_server),
                     [](const std::exception_ptr&) {});
      asio::co_spawn(context, pump(line, line->server, line->client, proxy.to_client),
                     [](const std::exception_ptr&) {});
    }
  }

  CuttingProxy& proxy;
  asio::io_context& context;
  tcp::endpoint target;
  tcp::acceptor acceptor;
  std::list<std::shared_ptr<Line>> open;
};

CuttingProxy::CuttingProxy(asio::io_context& context, const Endpoint& target)
    : lines_(std::make_unique<Lines>(*this, context, target)) {
  asio::co_spawn(context, lines_->accept(), [](const std::exception_ptr&) {});
}

CuttingProxy::~CuttingProxy() {
  lines_->acceptor.close();
  cut();
}

Endpoint CuttingProxy::endpoint() const {
  return Endpoint{"127.0.0.1", lines_->acceptor.local_endpoint().port()};
}

void CuttingProxy::cut() {
  for (const auto& line : lines_->open)
    for (tcp::socket* socket : {&line->client, &line->server}) {
      boost::system::error_code ignored;
      socket->set_option(asio::socket_base::linger(true, 0), ignored);
      socket->close(ignored);
    }
  lines_->open.clear();
}

void CuttingProxy::go_dead() {
  for (const auto& line : lines_->open) {
    line->dead = true;
    boost::system::error_code ignored;
    line->client.cancel(ignored);
    line->server.cancel(ignored);
  }
}

}  // namespace muster::rendezvous::test
