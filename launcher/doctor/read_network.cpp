// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/read_network.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/net/interface_choice.hpp"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace muster::launcher {
namespace {

/// An address of no host (RFC 5737): the kernel would send to it by the default route.
constexpr const char* kElsewhere = "192.0.2.1";

std::string numeric(const sockaddr* address) {
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text.data();
}

std::string interface_with(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if ((family == AF_INET || family == AF_INET6) && numeric(each->ifa_addr) == address)
      return each->ifa_name;
  }
  return {};
}

int mtu_of(const std::string& interface) {
  const std::string text = read_file("/sys/class/net/" + interface + "/mtu", 32).value_or("");
  return static_cast<int>(leading_number(text).value_or(0));
}

}  // namespace

NetworkFacts read_network(const std::string& towards) {
  NetworkFacts facts;
  facts.towards = towards;
  try {
    facts.address = rendezvous::address_towards({towards.empty() ? kElsewhere : towards});
    facts.interface = interface_with(facts.address);
    if (!facts.interface.empty()) facts.mtu = mtu_of(facts.interface);
  } catch (const std::runtime_error& error) {
    facts.error = towards.empty() ? "no route to other hosts" : error.what();
  }
  return facts;
}

}  // namespace muster::launcher
