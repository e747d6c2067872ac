// SPDX-License-Identifier: Apache-2.0
// The store's sockets. All are in one epoll set of our own, which whoever runs the store watches as one
// descriptor: Asio in our programs, a thread in the SDK. So a request costs a recv, a send and a share of an
// epoll_wait: no coroutine frame, no handler object, no second read that only finds out that there is nothing
// more, which is what passing 64 busy connections through Asio's reactor one by one would add to each. The
// set is level-triggered; each readable connection is read once per turn, so a flooding client waits for its
// turn like the others. POSIX and the standard library only.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/admission.hpp"
#include "rendezvous/server/connection_set.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/server/refusals.hpp"

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace muster::rendezvous {

struct StoreServerOptions {
  /// False: it has no listener of its own and serves what adopt() gives it; host and port (numeric) are those
  /// of the listener that others see, for texts.
  bool listen = true;
  /// Address or name of this machine; exactly that address is bound.
  std::string host = "127.0.0.1";
  /// 0: any free port.
  int port = 0;
  /// Peers on this host must run under our uid (netlink, exact 4-tuple). Off: for workers in containers with
  /// another uid.
  bool same_user_only = true;
  /// Peers must have one of these addresses. Needed for an address beyond loopback; empty otherwise allows
  /// all.
  std::vector<Cidr> allow_from;
  /// Permits `host` to be a wildcard.
  bool allow_wildcard = false;
  std::size_t max_connections = kMaxConnections;
  std::size_t max_store_bytes = kMaxStoreBytes;
  /// Of requests and replies under way, of all connections; if they have more, the one that has most is cut.
  std::size_t max_bytes_under_way = std::numeric_limits<std::size_t>::max();
  /// Limit from accept to the first whole message.
  std::chrono::milliseconds handshake_timeout = kHandshakeTimeout;
  /// Told of peers that were refused or cut off, one line each, on the thread that runs the store. Empty: the
  /// log, of a StoreServer; nobody, of a StoreEngine.
  std::function<void(const std::string&)> warn = {};
};

struct StoreServerCounters {
  std::size_t connections = 0;  ///< open now
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;        ///< by admission, or because there were too many
  std::uint64_t cut_silent = 0;     ///< no whole first message in time
  std::uint64_t cut_for_error = 0;  ///< over a limit, bad bytes, unread output
  std::uint64_t requests = 0;
  std::size_t store_bytes = 0;
};

/// The store of one round, listening on one address. One thread at a time. Throws std::runtime_error if it
/// cannot listen; the text names host, port, who holds a busy port, and what to do.
class StoreEngine final : private StoreBudget {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit StoreEngine(StoreServerOptions options);
  StoreEngine(const StoreEngine&) = delete;
  StoreEngine& operator=(const StoreEngine&) = delete;

  /// The address on which it listens: numeric host, real port. Stays valid after close().
  const SocketAddress& endpoint() const { return listener_.address; }

  /// Readable when turn() has something to do.
  int descriptor() const { return epoll_.get(); }

  /// Carries out what is there, and returns soon: after about 5 ms and the request that is being carried out
  /// then. Is there more, descriptor() is readable still.
  void turn();

  /// The time at which cut_overdue() is due, because a connection owes its first message. May change with
  /// every turn().
  std::optional<TimePoint> next_deadline() const { return connections_.next_deadline(); }

  void cut_overdue(TimePoint now);

  /// Serves a connection that was accepted and admitted elsewhere.
  void adopt(UniqueFd fd, const SocketAddress& peer);

  /// Closes the listener and all connections at once and drops all data. The port can be bound again right
  /// away. Calling it again does nothing.
  void close();

  StoreServerCounters counters() const;

  /// As in the counters.
  std::size_t connections() const { return connections_.size(); }

 private:
  /// Enough for 64 busy clients in one system call.
  static constexpr int kEventsPerTurn = 128;

  int handle_events(TimePoint until);
  bool handle(StoreConnection& connection, std::uint32_t events);
  bool fetch_events();
  void bury();
  void flush_woken();
  void flush(StoreConnection& connection);
  void accept_some();
  bool accept_one();
  void take_in(UniqueFd fd, const SocketAddress& peer);
  bool is_full(const SocketAddress& peer);
  void serve(UniqueFd fd, const SocketAddress& peer);
  void make_room_for(const SocketAddress& peer);
  void refuse(const SocketAddress& peer, const std::string& why);
  void cut(StoreConnection& connection, const std::string& why);
  void complain(const SocketAddress& peer, const std::string& text);
  bool update_interest(StoreConnection& connection);
  void account(StoreConnection& connection, std::size_t bytes);
  bool room_for(StoreConnection& asker, std::size_t bytes) override;
  void cut_heaviest();
  void remove(StoreConnection& connection);

  StoreServerOptions options_;
  ListenSocket listener_;
  UniqueFd epoll_;
  bool closed_ = false;
  AdmissionRules admission_;
  PeerLog peer_log_;
  SpareDescriptor spare_;
  StoreServerCounters counters_;
  std::size_t under_way_ = 0;
  Store store_;
  ConnectionSet connections_;
  // Of the events that were fetched, those from next_event_ on wait for their turn.
  std::array<epoll_event, kEventsPerTurn> events_{};
  int event_count_ = 0;
  int next_event_ = 0;
  bool knock_ = false;
};

}  // namespace muster::rendezvous
