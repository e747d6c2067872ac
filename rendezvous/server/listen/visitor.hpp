// SPDX-License-Identifier: Apache-2.0
// Connections at the port on the network that have not proved yet who they are, and limits on their number.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace muster::rendezvous {

/// Counts the connections that have not proved yet who they are. From half of a limit on, a new one is
/// dropped by chance, the more likely the nearer the limit is (random early drop), so that a flood cannot
/// decide who gets in.
class ConnectionGate {
 public:
  struct Limits {
    std::size_t total = 0;
    std::size_t per_address = 0;
  };

  explicit ConnectionGate(Limits limits) : limits_(limits) {}

  /// Whether a connection from `address` (any text that stands for it) is taken; `chance` is a random number
  /// from 0 up to but not including 1. leave() is to be called once for each connection taken.
  bool enter(std::string_view address, double chance);
  void leave(std::string_view address);

  std::size_t size() const { return size_; }

  /// Whether half of the limit is used, so that new connections may be dropped.
  bool crowded() const { return 2 * size_ >= limits_.total; }

 private:
  static double drop_share(std::size_t count, std::size_t limit);

  Limits limits_;
  std::size_t size_ = 0;
  std::unordered_map<std::string, std::size_t> by_address_;
};

/// The most connections from one host with an agent of ours. All workers of a host connect at once; the agent
/// is asked about each connection, which leaves the gate within a round trip.
inline constexpr std::size_t kMaxUnvouched = 2048;

inline constexpr ConnectionGate::Limits kStrangers{kMaxPendingHandshakes, kMaxPendingHandshakesPerAddress};
inline constexpr ConnectionGate::Limits kKnownHosts{2 * kMaxUnvouched, kMaxUnvouched};
/// The limits for connections whose first message was made with a key but may be a recorded one.
inline constexpr ConnectionGate::Limits kAlmostIn{4096, kMaxUnvouched};

/// Counts the connections of each kind, at one port or at several together. They may leave on any thread.
struct Gates {
  Gates() = default;

  /// Limits each kind to `most` connections.
  explicit Gates(std::size_t most)
      : strangers(bounded(kStrangers, most)),
        known(bounded(kKnownHosts, most)),
        almost_in(bounded(kAlmostIn, most)) {}

  static ConnectionGate::Limits bounded(const ConnectionGate::Limits& limits, std::size_t most) {
    return {std::min(limits.total, most), std::min(limits.per_address, most)};
  }

  std::mutex mutex;
  ConnectionGate strangers{kStrangers};
  ConnectionGate known{kKnownHosts};
  ConnectionGate almost_in{kAlmostIn};
};

/// A place in one of the gates, held as long as this object lives.
class Ticket {
 public:
  Ticket(std::shared_ptr<Gates> gates, std::string address)
      : gates_(std::move(gates)), address_(std::move(address)) {}

  ~Ticket() {
    const std::scoped_lock lock(gates_->mutex);
    if (gate_ != nullptr) gate_->leave(address_);
  }

  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  /// Counts the ticket in another gate from now on; false if there is no room, and then it counts in no gate.
  [[nodiscard]] bool enter(ConnectionGate Gates::*wanted, double chance) {
    const std::scoped_lock lock(gates_->mutex);
    ConnectionGate* const other = &((*gates_).*wanted);
    if (gate_ == other) return true;
    if (gate_ != nullptr) gate_->leave(address_);
    gate_ = other->enter(address_, chance) ? other : nullptr;
    return gate_ != nullptr;
  }

 private:
  std::shared_ptr<Gates> gates_;
  std::string address_;
  ConnectionGate* gate_ = nullptr;
};

/// Closes a stranger's connection by a reset, so that nothing of it lingers in the kernel.
inline void drop(UniqueFd fd) {
  const linger at_once{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

/// A connection that has not proved yet who it is.
struct Visitor {
  Visitor(std::shared_ptr<Gates> gates, UniqueFd connection, const SocketAddress& from)
      : fd(std::move(connection)), peer(from), ticket(std::move(gates), std::string(from.bytes())) {}

  UniqueFd fd;
  SocketAddress peer;
  Ticket ticket;
  TimePoint deadline = std::chrono::steady_clock::now() + kHelloTimeout;
};

}  // namespace muster::rendezvous
