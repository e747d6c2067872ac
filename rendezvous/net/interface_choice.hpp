// SPDX-License-Identifier: Apache-2.0
// The addresses of this host, and which of them other hosts can reach.
#pragma once

#include <string>
#include <vector>

namespace muster::rendezvous {

/// The address of this host from which the kernel would send to the first of `peers` (names or addresses)
/// that is on another host. It is found by connecting a UDP socket, which sends nothing. Loopback if every
/// peer is this host. Throws std::runtime_error: names the peer, the cause, and what to do.
std::string address_towards(const std::vector<std::string>& peers);

/// The address of the interface `name` ("eth0"): IPv4 if it has one, else a global IPv6 address. Throws
/// std::runtime_error naming the existing interfaces.
std::string address_of_interface(const std::string& name);

/// The numeric addresses of this host that are up and not link-local, loopback last.
std::vector<std::string> local_addresses();

}  // namespace muster::rendezvous
