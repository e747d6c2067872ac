// SPDX-License-Identifier: Apache-2.0
// Serves a store in a process of the SDK.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/base/wake_up.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/server/store/store_engine.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster {

/// A store that this process serves from a thread of its own, on one address.
class StoreThread {
 public:
  /// Serves on `port`; 0: any free port. Beyond loopback, peers must have an address in `allow` (this host's
  /// own is added). Throws Error: invalid_argument when the address may not be listened on, io when it
  /// cannot.
  StoreThread(const std::string& host, int port, std::vector<rendezvous::Cidr> allow);
  /// Closes all connections at once. Not to be called in a forked child, which has no such thread: leak the
  /// object there.
  ~StoreThread();
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  std::string host() const { return engine_.endpoint().host(); }

  int port() const { return engine_.endpoint().port(); }

  /// The address of the store: "127.0.0.1:29500".
  std::string endpoint() const { return engine_.endpoint().text(); }

  /// Waits until at most `own` connections are open, or `limit`. False at the limit.
  bool wait_until_unused(std::size_t own, std::chrono::milliseconds limit);

 private:
  void serve();

  rendezvous::StoreEngine engine_;
  WakeUp wake_up_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t connections_ = 0;
  bool counted_ = false;  ///< whether connections_ was counted since a thread asked
  std::thread thread_;
};

/// Splits a list like "10.0.0.0/8,fd00::1". Throws Error (invalid_argument) that begins with `what`.
std::vector<rendezvous::Cidr> parse_allow_list(const std::string& what, const std::string& text);

}  // namespace muster
