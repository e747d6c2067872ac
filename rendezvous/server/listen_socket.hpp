// SPDX-License-Identifier: Apache-2.0
// Opens a listening socket on exactly one address, with errors that say what to do.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace muster::rendezvous {

struct ListenSocket {
  UniqueFd fd;            ///< non-blocking, close-on-exec, listening
  SocketAddress address;  ///< the address that was bound
};

/// The error for a port on which another process listens.
class PortInUse : public std::runtime_error {
 public:
  PortInUse(const std::string& text, std::string holder_name)
      : std::runtime_error(text), holder_name_(std::move(holder_name)) {}

  /// The name of the process that holds the port; empty if it cannot be seen.
  const std::string& holder_name() const { return holder_name_; }

 private:
  std::string holder_name_;
};

/// Binds exactly one address that `host` stands for. Throws std::runtime_error: names host, port, the cause,
/// the holder of a busy port (PortInUse), and what to do. A wildcard needs `allow_wildcard`; an address
/// beyond loopback needs `may_leave_host`.
ListenSocket open_listen_socket(const std::string& host, int port, bool may_leave_host, bool allow_wildcard);

/// The reason why `address` may not be listened on; empty if it may.
std::string refuse_to_listen(const SocketAddress& address, bool may_leave_host, bool allow_wildcard);

}  // namespace muster::rendezvous
