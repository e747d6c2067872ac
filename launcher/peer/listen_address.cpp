// SPDX-License-Identifier: Apache-2.0
#include "launcher/core/launch_error.hpp"
#include "launcher/peer/peer_node.hpp"
#include "rendezvous/net/address.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::launcher {
namespace {

constexpr int kAnyPort = 0;
/// An address of a network that is reserved for documents (RFC 5737): the way to it is the default route.
constexpr const char* kFarAway = "192.0.2.1";

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::vector<std::string> numeric(const std::string& host) {
  std::vector<std::string> found;
  try {
    for (const rendezvous::SocketAddress& address : rendezvous::resolve(host, kAnyPort))
      found.push_back(address.host());
  } catch (const std::exception&) {
    // A name that only the other hosts know.
  }
  return found;
}

std::string default_route() {
  try {
    return rendezvous::address_towards({kFarAway});
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

std::string choose_listen_address(const ListenChoice& choice) {
  const auto ours = [&choice](const std::string& address) {
    return is_loopback(address) ||
           std::find(choice.own.begin(), choice.own.end(), address) != choice.own.end();
  };
  for (const std::string& address : choice.endpoint)
    if (ours(address) && (!is_loopback(address) || choice.endpoint_is_loopback)) return address;
  if (choice.endpoint_is_loopback) return "127.0.0.1";
  for (const std::string& address : {choice.local_addr, choice.default_route})
    if (!address.empty() && ours(address) && !is_loopback(address)) return address;
  return choice.own.empty() ? "127.0.0.1" : choice.own.front();
}

std::string listen_address(const std::string& endpoint_host, const std::string& interface_name,
                           const std::string& local_addr) {
  try {
    if (!interface_name.empty()) return rendezvous::address_of_interface(interface_name);
    ListenChoice choice;
    choice.endpoint_is_loopback = endpoint_host == "localhost" || is_loopback(endpoint_host);
    choice.endpoint = numeric(endpoint_host);
    choice.own = rendezvous::local_addresses();
    if (!local_addr.empty()) {
      const auto given = numeric(local_addr);
      if (!given.empty()) choice.local_addr = given.front();
    }
    choice.default_route = default_route();
    return choose_listen_address(choice);
  } catch (const std::runtime_error& error) {
    throw LaunchError(kExitUsage, error.what());
  }
}

}  // namespace muster::launcher
