// SPDX-License-Identifier: Apache-2.0
// A store without sockets, whose clients' bytes come through channels of the nodes' control connections.
#pragma once

#include "rendezvous/core/store.hpp"
#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/store/store_wait.hpp"
#include "rendezvous/wire/channel.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace muster::rendezvous {

/// The most bytes of requests and replies under way, of all clients that one agent serves: several values of
/// the largest size at once.
inline constexpr std::size_t kMaxFedBytesPerNode = 128 * kMiB;

/// A client of such a store: the session of its node, and the ports, on that node's 127.0.0.1, of the worker
/// and of the agent that it is connected to; 0: not known.
struct FedClient {
  SessionId node = 0;
  int worker_port = 0;
  int proxy_port = 0;
};

/// The store of one round under --store-proxy. Used on one thread, that of the channels.
class FedStore {
 public:
  explicit FedStore(std::size_t max_store_bytes, std::size_t max_node_bytes = kMaxFedBytesPerNode)
      : store_(max_store_bytes), max_node_bytes_(max_node_bytes) {}

  ~FedStore() { close(); }

  FedStore(const FedStore&) = delete;
  FedStore& operator=(const FedStore&) = delete;

  /// Serves one client. The clients of a node share one budget for bytes under
  /// way; the client that exceeds it is cut.
  void feed(std::shared_ptr<Channel> channel, const FedClient& client);

  /// The clients that wait for a key, at most `most`. Costs nothing while nobody asks.
  std::vector<StoreWait> waits(std::size_t most) const;

  /// The bytes under way of all clients of a node.
  std::size_t under_way(SessionId node) const;

  /// Ends all clients' channels and drops all data.
  void close();

 private:
  class Client;

  void flush_woken();

  Store store_;
  std::size_t max_node_bytes_;
  /// The bytes under way of each node that has any.
  std::map<SessionId, std::size_t> under_way_;
  /// The clients whose wait was ended by another client's request.
  std::vector<std::weak_ptr<Client>> woken_;
  std::set<std::shared_ptr<Client>> clients_;
  bool flushing_ = false;
};

}  // namespace muster::rendezvous
