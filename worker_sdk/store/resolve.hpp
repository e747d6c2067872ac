// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <vector>

namespace muster {

/// An address to connect to.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

/// The addresses of `host`, in the system's order of preference (IPv6 and IPv4). A numeric address is
/// answered at once; a name is looked up on a thread of its own, since getaddrinfo() cannot be given a
/// deadline. Throws std::runtime_error with the resolver's text, or when `deadline` has passed.
std::vector<SocketAddress> resolve(const std::string& host, int port,
                                   std::chrono::steady_clock::time_point deadline);

}  // namespace muster
