// SPDX-License-Identifier: Apache-2.0
// Addresses of hosts, and how names are turned into them.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace muster::rendezvous {

/// An IPv4 or IPv6 address with a port. An IPv4 address that came mapped into IPv6 is kept as IPv4.
class SocketAddress {
 public:
  SocketAddress() = default;
  /// Takes an address as accept, getsockname and getaddrinfo give it; an address of another family becomes
  /// empty.
  SocketAddress(const sockaddr* address, socklen_t size);

  int family() const { return storage_.ss_family; }

  const sockaddr* data() const;
  socklen_t size() const;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  /// The address in network order: 4 or 16 bytes.
  std::string_view bytes() const;
  /// "127.0.0.1" or "::1".
  std::string host() const;
  /// "127.0.0.1:29500" or "[::1]:29500".
  std::string text() const;
  bool is_loopback() const;
  bool is_wildcard() const;

 private:
  sockaddr_storage storage_{};
};

/// The local address of a connection or of a listening socket; of family 0 if `fd` is neither.
SocketAddress local_end(int fd);

/// A block of addresses like "10.0.0.0/8" or "fd00::/8", or a single address.
class Cidr {
 public:
  /// nullopt if `text` is no such block.
  static std::optional<Cidr> parse(std::string_view text);
  bool contains(const SocketAddress& address) const;

 private:
  SocketAddress network_;
  unsigned prefix_bits_ = 0;
};

/// The error of a name that a resolver does not turn into an address.
class NameError : public std::runtime_error {
 public:
  NameError(const std::string& text, bool no_such_name)
      : std::runtime_error(text), no_such_name_(no_such_name) {}

  /// Whether a name server, or a file, says that there is no such name; otherwise no server could say so now.
  bool no_such_name() const { return no_such_name_; }

 private:
  bool no_such_name_;
};

/// The addresses that `host` (an address or a name) stands for, IPv4 first. Throws NameError naming the host
/// and the resolver's reason. Blocks while a name is looked up.
std::vector<SocketAddress> resolve(const std::string& host, int port);

}  // namespace muster::rendezvous
