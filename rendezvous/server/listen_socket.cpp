// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listen_socket.hpp"

#include "rendezvous/server/socket_table.hpp"

#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace muster::rendezvous {
namespace {

std::string advice_for(int error) {
  switch (error) {
    case EACCES:
      return "; ports below 1024 are for root: choose a higher one, or port 0 for any";
    case EADDRNOTAVAIL:
      return "; it is not an address of this machine: see `ip address` for those that are";
    default:
      return "";
  }
}

[[noreturn]] void throw_in_use(const std::string& text, std::uint16_t port) {
  PortHolder holder = find_port_holder(port);
  throw PortInUse(text + (holder.text.empty() ? "" : " by " + holder.text) +
                      "; end that process, choose another port, or port 0 for any",
                  std::move(holder.name));
}

// Tries to bind and listen; returns 0, or the errno of the call that failed.
int try_to_listen(const SocketAddress& address, ListenSocket& result) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  const int on = 1;
  const int v6_only = address.is_wildcard() ? 0 : 1;
  // With this option a port whose old connections linger in TIME_WAIT can be bound again at once; a port that
  // another socket listens on still cannot.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.family() == AF_INET6)
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
  if (::bind(fd.get(), address.data(), address.size()) != 0) return errno;
  if (::listen(fd.get(), SOMAXCONN) != 0) return errno;
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  void* storage = &bound;
  if (::getsockname(fd.get(), static_cast<sockaddr*>(storage), &size) != 0) return errno;
  result.fd = std::move(fd);
  result.address = SocketAddress(static_cast<sockaddr*>(storage), size);
  return 0;
}

}  // namespace

std::string refuse_to_listen(const SocketAddress& address, bool may_leave_host, bool allow_wildcard) {
  if (address.is_wildcard() && !allow_wildcard) {
    return "refusing to listen on every address of this machine (" + address.text() +
           "); name one address, or add --listen-any";
  }
  if (!address.is_loopback() && !may_leave_host) {
    return "refusing to listen on " + address.text() +
           " for everyone: whoever can write to the store can run code in torchrun's agents, which unpickle "
           "what they "
           "read there; add --allow-from CIDR[,CIDR...] with the addresses of the job's machines, or listen "
           "on 127.0.0.1";
  }
  return "";
}

ListenSocket open_listen_socket(const std::string& host, int port, bool may_leave_host, bool allow_wildcard) {
  const std::string where = "cannot listen on host '" + host + "' port " + std::to_string(port) + ": ";
  std::string why = "it has neither an IPv4 nor an IPv6 address";
  for (const SocketAddress& address : resolve(host, port)) {
    const std::string refusal = refuse_to_listen(address, may_leave_host, allow_wildcard);
    if (!refusal.empty()) throw std::runtime_error(refusal);
    ListenSocket result;
    const int error = try_to_listen(address, result);
    if (error == 0) return result;
    why = address.text() + ": " + std::strerror(error);
    // The name's next address is not tried, because it would be another place than the one asked for.
    if (error == EADDRINUSE) throw_in_use(where + why, address.port());
    why += advice_for(error);
  }
  throw std::runtime_error(where + why);
}

}  // namespace muster::rendezvous
