// SPDX-License-Identifier: Apache-2.0
// The store of one round, in whatever way its clients reach it. Includes Asio.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/server/store/store_engine.hpp"
#include "rendezvous/server/store/store_feed.hpp"
#include "rendezvous/server/store/store_wait.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::rendezvous {

struct OpenedStore {
  Endpoint endpoint{};
  /// Closes the store and cuts its connections before it returns.
  std::function<void()> close{};
  /// Serves a worker's connection that has been admitted; empty if the store has a listener of its own.
  std::function<void(UniqueFd, const SocketAddress& peer)> adopt{};
  /// The workers that wait for a key, at most so many.
  std::function<std::vector<StoreWait>(std::size_t most)> waits{};
  /// Serves a worker through a channel of its node's session; empty if this store takes no channels.
  std::function<void(std::shared_ptr<Channel>, const FedClient&)> feed{};
};

/// Opens a store with a listener of its own. A job on one machine has its peers on this machine: they come
/// from the very address that is listened on, so beyond loopback only that address is let in (and the owner
/// of a connection is looked up as on loopback). Throws as StoreServer does.
OpenedStore open_own_store(const boost::asio::any_io_executor& executor, StoreServerOptions listen);

/// The options of a job's own store whose clients come through the ControlPort at `address`, with the default
/// limits.
StoreServerOptions shared_store(const SocketAddress& address);
OpenedStore open_shared_store(const boost::asio::any_io_executor& executor, StoreServerOptions options);

/// Opens a store whose clients come through their agents. `address`: the coordinator's, for texts.
OpenedStore open_fed_store(const SocketAddress& address, std::size_t max_bytes = kMaxStoreBytes);

/// A 64th (kMaxHostedJobs) of kMaxHostedStoresBytes or of half of `memory` bytes, whichever is less: the cap
/// of one job's store.
std::size_t hosted_store_bytes(std::uint64_t memory);

/// The same cap for the memory that this process may use (read_allowance()). Looked up once.
std::size_t hosted_store_bytes();

/// The options of one store of a daemon whose clients come through the ControlPort at `address`, with limits
/// that many stores share.
StoreServerOptions hosted_store(const SocketAddress& address);

}  // namespace muster::rendezvous
