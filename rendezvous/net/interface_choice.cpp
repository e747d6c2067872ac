// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/interface_choice.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>

namespace muster::rendezvous {
namespace {

/// The port to which the UDP socket is connected; any port works, because nothing is sent.
constexpr int kSomePort = 9;

struct Interface {
  std::string name;
  SocketAddress address;
};

bool is_link_local(const SocketAddress& address) {
  const std::string_view bytes = address.bytes();
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (address.family() == AF_INET) return byte(0) == 169 && byte(1) == 254;
  return byte(0) == 0xfe && (byte(1) & 0xc0U) == 0x80;
}

/// All interfaces that are up and have an address of loopback or one that other hosts can use.
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    throw std::runtime_error(std::string("cannot list this host's addresses: ") + std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const SocketAddress address(each->ifa_addr,
                                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (!is_link_local(address)) found.push_back({each->ifa_name, address});
  }
  return found;
}

/// The address from which the kernel would send to `peer`; nothing if it would not send, and then `why` is
/// the cause.
std::optional<SocketAddress> source_towards(const SocketAddress& peer, std::string& why) {
  const UniqueFd fd(::socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  void* name = &storage;
  if (!fd || ::connect(fd.get(), peer.data(), peer.size()) != 0 ||
      ::getsockname(fd.get(), static_cast<sockaddr*>(name), &size) != 0) {
    why = std::strerror(errno);
    return std::nullopt;
  }
  return SocketAddress(static_cast<sockaddr*>(name), size);
}

bool is_ours(const SocketAddress& address, const std::vector<Interface>& ours) {
  return address.is_loopback() || std::any_of(ours.begin(), ours.end(), [&](const Interface& each) {
           return each.address.bytes() == address.bytes();
         });
}

}  // namespace

std::string address_towards(const std::vector<std::string>& peers) {
  const std::vector<Interface> ours = interfaces();
  std::string trouble;
  std::string loopback;
  for (const std::string& peer : peers) {
    std::string why = "its addresses are all of this host";
    for (const SocketAddress& address : resolve(peer, kSomePort)) {
      if (is_ours(address, ours)) {
        loopback = address.family() == AF_INET ? "127.0.0.1" : "::1";
        continue;
      }
      const auto source = source_towards(address, why);
      if (source && !source->is_loopback()) return source->host();
      trouble = "no route to host '" + peer + "' (" + address.host() + "): " + why;
    }
  }
  if (!trouble.empty())
    throw std::runtime_error(trouble +
                             "; name the interface that reaches the other nodes with --interface, or "
                             "this host's address with --local-addr");
  return loopback.empty() ? "127.0.0.1" : loopback;
}

std::string address_of_interface(const std::string& name) {
  const std::vector<Interface> ours = interfaces();
  for (const int family : {AF_INET, AF_INET6})
    for (const Interface& each : ours)
      if (each.name == name && each.address.family() == family) return each.address.host();
  const auto text_of = [](const Interface& each) { return each.name + " (" + each.address.host() + ")"; };
  throw std::runtime_error("interface '" + name +
                           "' is not up here or has no address; there are: " + joined_by(ours, text_of));
}

std::vector<std::string> local_addresses() {
  std::vector<Interface> ours = interfaces();
  std::stable_partition(ours.begin(), ours.end(),
                        [](const Interface& each) { return !each.address.is_loopback(); });
  std::vector<std::string> addresses;
  addresses.reserve(ours.size());
  for (const Interface& each : ours) addresses.push_back(each.address.host());
  return addresses;
}

}  // namespace muster::rendezvous
