// SPDX-License-Identifier: Apache-2.0
// --store-proxy: the store's address as the workers of one node see it; their requests travel inside the
// agent's connection to the coordinator.
#pragma once

#include "rendezvous/client/coordinator_client.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>

namespace muster::agent {

/// Listens on loopback; each connection of a worker becomes a channel. Used from one thread.
class StoreProxy {
 public:
  /// `client` outlives the proxy. Throws boost::system::system_error when loopback cannot be listened on.
  StoreProxy(const boost::asio::any_io_executor& executor, rendezvous::CoordinatorClient& client);
  ~StoreProxy();
  StoreProxy(const StoreProxy&) = delete;
  StoreProxy& operator=(const StoreProxy&) = delete;

  int port() const;
  /// Cuts the workers' connections when the round is over, since a new round has a new store.
  void cut();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::agent
