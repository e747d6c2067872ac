// SPDX-License-Identifier: Apache-2.0
// Asks the kernel about the TCP sockets of this host (network namespace).
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace muster::rendezvous {

struct SocketEntry {
  uid_t uid = 0;
  std::uint64_t inode = 0;  ///< 0 when no process holds the socket any more; uid is then meaningless
  bool established = false;
};

enum class SocketLookup {
  found,
  absent,       ///< no such socket on this host: the peer is another machine, or has gone
  unavailable,  ///< the kernel did not say
};

/// Finds the socket with exactly the given ends. One query costs about 3 us. Not thread-safe.
class SocketTable {
 public:
  /// Finds the socket through netlink SOCK_DIAG or, where that is not available, by reading /proc/net/tcp.
  SocketLookup find(const SocketAddress& local, const SocketAddress& remote, SocketEntry& entry);
  /// Finds the socket by reading /proc/net/tcp, which is slow; public for its test.
  static SocketLookup find_in_proc(const SocketAddress& local, const SocketAddress& remote,
                                   SocketEntry& entry);

 private:
  SocketLookup ask_netlink(const SocketAddress& local, const SocketAddress& remote, SocketEntry& entry);

  UniqueFd netlink_;
  std::uint32_t sequence_ = 0;
};

/// The process that listens on a port.
struct PortHolder {
  /// The process's own name ("python3"); empty if it cannot be seen.
  std::string name{};
  /// "process 4711 (python3)", or "a process of another user (uid 1000)" if only that is seen; empty if
  /// nothing is found.
  std::string text{};
};

PortHolder find_port_holder(std::uint16_t port);

}  // namespace muster::rendezvous
