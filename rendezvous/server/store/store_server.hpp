// SPDX-License-Identifier: Apache-2.0
// The store of one round on an Asio event loop.
#pragma once

#include "rendezvous/server/store/store_engine.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace muster::rendezvous {

/// The store of one round, listening on one address. It begins empty; a new round takes a new object, so that
/// no key of an old round can be seen and no connection of it survives. It can be made on any thread; all
/// calls, and the destructor, happen on the thread that runs `executor` (or while no thread runs it), except
/// where a method says otherwise. Throws std::runtime_error if it cannot listen; the text names host, port,
/// the holder of a busy port, and what to do.
class StoreServer {
 public:
  StoreServer(const boost::asio::any_io_executor& executor, StoreServerOptions options);

  ~StoreServer() { close(); }

  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// The address on which the store listens: numeric host, real port. Stays valid after close().
  const SocketAddress& endpoint() const { return engine_.endpoint(); }

  /// Serves a connection that was accepted and admitted elsewhere.
  void adopt(UniqueFd fd, const SocketAddress& peer);

  /// Closes the listener and all connections at once and drops all data. The port can be bound again right
  /// away. Calling it again does nothing.
  void close();

  StoreServerCounters counters() const { return engine_.counters(); }

  std::vector<StoreWait> waits(std::size_t most) const { return engine_.waits(most); }

  /// The number of connections open now, or a moment ago. Any thread.
  std::size_t connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  void watch();
  void arm_deadline();

  void count() { connections_.store(engine_.connections(), std::memory_order_relaxed); }

  StoreEngine engine_;
  boost::asio::posix::stream_descriptor watched_;  ///< a duplicate of the engine's descriptor, owned by Asio
  boost::asio::steady_timer deadline_;
  bool deadline_armed_ = false;
  bool closed_ = false;
  std::atomic<std::size_t> connections_ = 0;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace muster::rendezvous
