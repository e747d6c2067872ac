// SPDX-License-Identifier: Apache-2.0
// The store of clients without a key, at a port that others share. Includes Asio.
#pragma once

#include "rendezvous/server/loop_thread.hpp"
#include "rendezvous/server/opened_store.hpp"
#include "rendezvous/server/store_server.hpp"

#include <atomic>
#include <cstddef>
#include <memory>

namespace muster::rendezvous {

/// In a thread of its own: what its clients ask for, a listing of all keys say, takes nothing from who made
/// it but a share of the processor. One thread, but for what says otherwise.
class KeylessStore {
 public:
  /// `options` as of shared_store(). Throws as StoreServer does.
  explicit KeylessStore(const StoreServerOptions& options);

  ~KeylessStore() { close(); }

  KeylessStore(const KeylessStore&) = delete;
  KeylessStore& operator=(const KeylessStore&) = delete;

  /// Serves a connection that was admitted, or closes it, if there are too many.
  void adopt(UniqueFd fd, const SocketAddress& peer);

  /// Clients now, or a moment ago.
  std::size_t clients() const { return server_->connections(); }

  /// Ends the thread and cuts all connections before it returns. Idempotent.
  void close();

 private:
  std::size_t max_connections_;
  /// Connections on their way to the thread.
  std::shared_ptr<std::atomic<std::size_t>> on_the_way_ = std::make_shared<std::atomic<std::size_t>>(0);
  LoopThread thread_;
  std::shared_ptr<StoreServer> server_;
};

}  // namespace muster::rendezvous
