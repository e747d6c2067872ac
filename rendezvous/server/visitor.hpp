// SPDX-License-Identifier: Apache-2.0
// A connection at the port on the network that has not proved yet who it is, and how many there may be.
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
  /// from 0 up to but not including 1. Each one taken is to leave() once.
  bool enter(std::string_view address, double chance);
  void leave(std::string_view address);

  std::size_t size() const { return size_; }

  /// Half of the limit is used: new ones may be dropped.
  bool crowded() const { return 2 * size_ >= limits_.total; }

 private:
  static double drop_share(std::size_t count, std::size_t limit);

  Limits limits_;
  std::size_t size_ = 0;
  std::unordered_map<std::string, std::size_t> by_address_;
};

/// Most connections from one host with an agent of ours. Its workers all connect at once; the agent is asked
/// about each, which then leaves within a round trip.
inline constexpr std::size_t kMaxUnvouched = 2048;

inline constexpr ConnectionGate::Limits kStrangers{kMaxPendingHandshakes, kMaxPendingHandshakesPerAddress};
inline constexpr ConnectionGate::Limits kKnownHosts{2 * kMaxUnvouched, kMaxUnvouched};
/// Limits for connections whose first message was made with a key, and may be a recorded one.
inline constexpr ConnectionGate::Limits kAlmostIn{4096, kMaxUnvouched};

/// How many of each kind are held, at one port or at several together. They may leave on any thread.
struct Gates {
  Gates() = default;

  /// At most `most` of each kind.
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

/// A place in one of the gates, as long as this lives.
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

  /// Counts the ticket there from now on; false if there is no room, and it is counted nowhere.
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

/// Closed by a reset: nothing lingers in the kernel for a stranger's sake.
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
