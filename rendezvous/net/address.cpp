// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/address.hpp"

#include "rendezvous/base/text.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace muster::rendezvous {
namespace {

sockaddr_in as_v4(const sockaddr_storage& storage) {
  sockaddr_in address;
  std::memcpy(&address, &storage, sizeof(address));
  return address;
}

sockaddr_in6 as_v6(const sockaddr_storage& storage) {
  sockaddr_in6 address;
  std::memcpy(&address, &storage, sizeof(address));
  return address;
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size) {
  std::memcpy(&storage_, address, std::min<std::size_t>(size, sizeof(storage_)));
  if (family() == AF_INET) return;
  if (family() != AF_INET6) {
    storage_ = {};
    return;
  }
  const sockaddr_in6 v6 = as_v6(storage_);
  if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6.sin6_port;
  std::memcpy(&v4.sin_addr, v6.sin6_addr.s6_addr + 12, 4);
  storage_ = {};
  std::memcpy(&storage_, &v4, sizeof(v4));
}

const sockaddr* SocketAddress::data() const {
  const void* address = &storage_;
  return static_cast<const sockaddr*>(address);
}

socklen_t SocketAddress::size() const {
  return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

// The port is read as IPv4's, because sin_port and sin6_port lie at the same place.
std::uint16_t SocketAddress::port() const {
  return ntohs(as_v4(storage_).sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  sockaddr_in address = as_v4(storage_);
  address.sin_port = htons(port);
  std::memcpy(&storage_, &address, sizeof(address));
}

std::string_view SocketAddress::bytes() const {
  const void* start = &storage_;
  const char* base = static_cast<const char*>(start);
  if (family() == AF_INET) return {base + offsetof(sockaddr_in, sin_addr), 4};
  if (family() == AF_INET6) return {base + offsetof(sockaddr_in6, sin6_addr), 16};
  return {};
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (!bytes().empty()) inet_ntop(family(), bytes().data(), text, sizeof(text));
  return text;
}

std::string SocketAddress::text() const {
  const std::string port_text = ":" + std::to_string(port());
  if (family() != AF_INET6) return host() + port_text;
  const unsigned scope = as_v6(storage_).sin6_scope_id;
  char interface_name[IF_NAMESIZE] = "";
  if (scope == 0 || ::if_indextoname(scope, interface_name) == nullptr) return "[" + host() + "]" + port_text;
  return "[" + host() + "%" + interface_name + "]" + port_text;
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return bytes().front() == 127;
  const in6_addr address = as_v6(storage_).sin6_addr;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address);
}

bool SocketAddress::is_wildcard() const {
  const std::string_view address = bytes();
  return std::all_of(address.begin(), address.end(), [](char byte) { return byte == 0; });
}

SocketAddress local_end(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  void* address = &storage;
  if (::getsockname(fd, static_cast<sockaddr*>(address), &size) != 0) return {};
  return {static_cast<sockaddr*>(address), size};
}

std::optional<Cidr> Cidr::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  Cidr cidr;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const void* source = &v6;
  socklen_t size = sizeof(v6);
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    source = &v4;
    size = sizeof(v4);
  } else if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
  } else {
    return std::nullopt;
  }
  cidr.network_ = SocketAddress(static_cast<const sockaddr*>(source), size);
  const auto all_bits = static_cast<unsigned>(8 * cidr.network_.bytes().size());
  cidr.prefix_bits_ = all_bits;
  if (slash == std::string_view::npos) return cidr;
  const auto bits = parse_number<unsigned>(text.substr(slash + 1));
  if (!bits || *bits > all_bits) return std::nullopt;
  cidr.prefix_bits_ = *bits;
  return cidr;
}

bool Cidr::contains(const SocketAddress& address) const {
  if (address.family() != network_.family()) return false;
  const std::string_view a = address.bytes();
  const std::string_view b = network_.bytes();
  const std::size_t whole = prefix_bits_ / 8;
  if (a.substr(0, whole) != b.substr(0, whole)) return false;
  const unsigned rest = prefix_bits_ % 8;
  if (rest == 0) return true;
  const unsigned differing = static_cast<unsigned char>(a[whole]) ^ static_cast<unsigned char>(b[whole]);
  return (differing >> (8 - rest)) == 0;
}

namespace {

/// Gives this thread's resolver one try of 2 s: otherwise a name server that does not answer would hold us
/// for 10 s. Reads the resolver's files.
void bound_resolver() {
  if (std::getenv("RES_OPTIONS") != nullptr || ::res_init() != 0) return;
  _res.retrans = 2;
  _res.retry = 1;
}

}  // namespace

std::vector<SocketAddress> resolve(const std::string& host, int port) {
  if (host.empty())
    throw std::runtime_error("no host to listen on is given: name one address of this machine");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    bound_resolver();
    hints.ai_flags = 0;
    error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  }
  if (error != 0) {
    const bool no_such_name = error == EAI_NONAME || error == EAI_NODATA || error == EAI_ADDRFAMILY;
    throw NameError("cannot find the address of host '" + host + "': " + gai_strerror(error) +
                        "; check its spelling, DNS and /etc/hosts, or give a numeric address",
                    no_such_name);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    SocketAddress address(each->ai_addr, each->ai_addrlen);
    if (address.bytes().empty()) continue;
    address.set_port(static_cast<std::uint16_t>(port));
    addresses.push_back(address);
  }
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const SocketAddress& address) { return address.family() == AF_INET; });
  return addresses;
}

}  // namespace muster::rendezvous
