// SPDX-License-Identifier: Apache-2.0
// The store's sockets. All are in one epoll set of our own, which the loop that runs the store watches as one
// descriptor: Asio in our programs, a thread in the SDK. So a request costs a recv, a send and a share of an
// epoll_wait. Passing 64 busy connections one by one through Asio's reactor would add to each a coroutine
// frame, a handler object and a second read that only finds that there is nothing more. The set is
// level-triggered; each readable connection is read once per turn, so a flooding client waits for its turn
// like the others. POSIX and the standard library only.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/admission.hpp"
#include "rendezvous/server/descriptor_limit.hpp"
#include "rendezvous/server/listen_socket.hpp"
#include "rendezvous/server/refusals.hpp"
#include "rendezvous/server/store/connection_set.hpp"
#include "rendezvous/server/store/store_wait.hpp"

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
  /// Whether the store has a listener of its own. False: it serves the connections that adopt() gives it, and
  /// host and port (numeric) are those of the listener that others see, for texts.
  bool listen = true;
  /// The address or name of this machine to listen on; exactly that address is bound.
  std::string host = "127.0.0.1";
  /// The port to listen on; 0: any free port.
  int port = 0;
  /// Whether peers on this host must run under our uid (netlink, exact 4-tuple). Off: for workers in
  /// containers with another uid.
  bool same_user_only = true;
  /// The addresses from which peers may come. Needed for an address beyond loopback; otherwise empty allows
  /// all.
  std::vector<Cidr> allow_from;
  /// Whether `host` may be a wildcard.
  bool allow_wildcard = false;
  std::size_t max_connections = kMaxConnections;
  std::size_t max_store_bytes = kMaxStoreBytes;
  /// The most bytes of requests and replies under way, of all connections together; when there are more, the
  /// connection with most is cut.
  std::size_t max_bytes_under_way = std::numeric_limits<std::size_t>::max();
  /// The longest time from accept to the first whole message.
  std::chrono::milliseconds handshake_timeout = kHandshakeTimeout;
  /// Told of peers that were refused or cut off, one line each, on the thread that runs the store. Empty: a
  /// StoreServer writes them to the log, a StoreEngine tells nobody.
  std::function<void(const std::string&)> warn = {};
};

struct StoreServerCounters {
  std::size_t connections = 0;  ///< open connections now
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;        ///< peers refused by admission, or because there were too many
  std::uint64_t cut_silent = 0;     ///< connections cut because no whole first message came in time
  std::uint64_t cut_for_error = 0;  ///< connections cut over a limit, for bad bytes or for unread output
  std::uint64_t requests = 0;
  std::size_t store_bytes = 0;
};

/// The store of one round, listening on one address. One thread at a time. Throws std::runtime_error if it
/// cannot listen; the text names host, port, the holder of a busy port, and what to do.
class StoreEngine final : private StoreBudget {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit StoreEngine(StoreServerOptions options);
  StoreEngine(const StoreEngine&) = delete;
  StoreEngine& operator=(const StoreEngine&) = delete;

  /// The address on which the store listens: numeric host, real port. Stays valid after close().
  const SocketAddress& endpoint() const { return listener_.address; }

  /// The descriptor to poll; it is readable when turn() has something to do.
  int descriptor() const { return epoll_.get(); }

  /// Carries out the requests that are there, and returns soon: after about 5 ms and the request that is
  /// being carried out then. If there are more, descriptor() is still readable.
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

  /// The clients that wait for a key, at most `most`. Costs nothing while nobody asks. The nearest key is
  /// looked for once for each name, and only for a few names.
  std::vector<StoreWait> waits(std::size_t most) const;

  /// The number of open connections, as in the counters.
  std::size_t connections() const { return connections_.size(); }

 private:
  /// The most events of one system call, enough for 64 busy clients.
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
  // The events that were fetched last; those from next_event_ on wait for their turn.
  std::array<epoll_event, kEventsPerTurn> events_{};
  int event_count_ = 0;
  int next_event_ = 0;
  bool knock_ = false;
};

}  // namespace muster::rendezvous
