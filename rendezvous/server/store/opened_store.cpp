// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store/opened_store.hpp"

#include "rendezvous/base/allowance.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/store/store_feed.hpp"
#include "rendezvous/server/store/store_server.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace muster::rendezvous {

OpenedStore open_own_store(const boost::asio::any_io_executor& executor, StoreServerOptions listen) {
  const SocketAddress address = resolve(listen.host, listen.port).front();
  if (!address.is_loopback() && !address.is_wildcard())
    listen.allow_from.push_back(*Cidr::parse(address.host()));
  const auto server = std::make_shared<StoreServer>(executor, std::move(listen));
  OpenedStore store;
  store.endpoint = Endpoint{server->endpoint().host(), server->endpoint().port()};
  store.close = [server] { server->close(); };
  store.waits = [server](std::size_t most) { return server->waits(most); };
  return store;
}

StoreServerOptions shared_store(const SocketAddress& address) {
  StoreServerOptions options;
  options.listen = false;
  options.host = address.host();
  options.port = address.port();
  return options;
}

OpenedStore open_shared_store(const boost::asio::any_io_executor& executor, StoreServerOptions options) {
  OpenedStore store;
  store.endpoint = Endpoint{options.host, options.port};
  const auto server = std::make_shared<StoreServer>(executor, std::move(options));
  store.close = [server] { server->close(); };
  store.waits = [server](std::size_t most) { return server->waits(most); };
  store.adopt = [server](UniqueFd fd, const SocketAddress& peer) { server->adopt(std::move(fd), peer); };
  return store;
}

OpenedStore open_fed_store(const SocketAddress& address, std::size_t max_bytes) {
  const auto fed = std::make_shared<FedStore>(max_bytes);
  OpenedStore store;
  store.endpoint = Endpoint{address.host(), address.port()};
  store.close = [fed] { fed->close(); };
  store.waits = [fed](std::size_t most) { return fed->waits(most); };
  store.feed = [fed](std::shared_ptr<Channel> channel, const FedClient& client) {
    fed->feed(std::move(channel), client);
  };
  return store;
}

std::size_t hosted_store_bytes(std::uint64_t memory) {
  return std::min<std::uint64_t>(kMaxHostedStoresBytes, memory / 2) / kMaxHostedJobs;
}

std::size_t hosted_store_bytes() {
  static const std::size_t bytes = [] {
    const std::uint64_t memory = read_allowance().memory;
    return hosted_store_bytes(memory > 0 ? memory : std::numeric_limits<std::uint64_t>::max());
  }();
  return bytes;
}

StoreServerOptions hosted_store(const SocketAddress& address) {
  StoreServerOptions store = shared_store(address);
  store.max_connections = std::min(kMaxConnections, static_cast<std::size_t>(descriptor_limit()) / 4);
  store.max_store_bytes = hosted_store_bytes();
  store.max_bytes_under_way = kMaxHostedBytesUnderWay;
  return store;
}

}  // namespace muster::rendezvous
