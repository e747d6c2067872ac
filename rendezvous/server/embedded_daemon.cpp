// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/embedded_daemon.hpp"

#include "rendezvous/net/address.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/embedded_service.hpp"
#include "rendezvous/server/network_daemon.hpp"
#include "rendezvous/server/store_server.hpp"

#include <memory>
#include <utility>

namespace muster::rendezvous {

namespace {

/// A job on one machine has its peers on this machine: they come from the very address that is listened on,
/// so beyond loopback that address alone is let in (and its owner is looked up as on loopback).
std::unique_ptr<StoreServer> open_store(const boost::asio::any_io_executor& executor,
                                        StoreServerOptions listen) {
  const SocketAddress address = resolve(listen.host, listen.port).front();
  if (!address.is_loopback() && !address.is_wildcard())
    listen.allow_from.push_back(*Cidr::parse(address.host()));
  return std::make_unique<StoreServer>(executor, std::move(listen));
}

}  // namespace

int run_embedded_daemon(EmbeddedOptions options) {
  raise_descriptor_limit();
  if (options.network) return serve_network(options);
  StoreServerOptions listen;
  listen.host = options.store.host;
  listen.port = options.store.port;
  listen.same_user_only = options.store.same_user_only;
  return serve_embedded(options, [listen](boost::asio::any_io_executor executor) {
    return [listen, executor](RoundNumber) {
      const std::shared_ptr<StoreServer> server = open_store(executor, listen);
      OpenedStore store;
      store.endpoint = Endpoint{server->endpoint().host(), server->endpoint().port()};
      store.close = [server] { server->close(); };
      return store;
    };
  });
}

}  // namespace muster::rendezvous
