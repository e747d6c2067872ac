// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/mpi_meeting.hpp"

#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/border.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>
#include <sstream>

namespace muster {
namespace {

/// The most bytes of one text, because a host has few addresses.
constexpr std::size_t kMessageBytes = 2048;
constexpr std::size_t kMostAddresses = 16;

using BroadcastFunction = std::int32_t (*)(void*, std::size_t, std::int32_t, muster_plugin_error*);
using RankAndSizeFunction = std::int32_t (*)(std::int32_t*, std::int32_t*, muster_plugin_error*);

template <typename Function>
Function mpi_function(const char* name) {
  return reinterpret_cast<Function>(plugin::plugin_function("mpi", name));
}

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof(v4));
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof(v6));
    // A link-local address has no meaning on another host.
    if (!IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

}  // namespace

std::string MpiNote::to_text() const {
  std::string text = boot;
  for (const std::string& address : addresses) text += " " + address;
  return text;
}

MpiNote MpiNote::from_text(const std::string& text) {
  MpiNote note;
  std::istringstream words(text);
  words >> note.boot;
  for (std::string address; words >> address;) note.addresses.push_back(address);
  return note;
}

TextBroadcast mpi_broadcast(int rank, int size) {
  const auto rank_and_size = mpi_function<RankAndSizeFunction>("muster_mpi_rank_and_size");
  const auto broadcast = mpi_function<BroadcastFunction>("muster_mpi_broadcast");
  std::int32_t mpi_rank = 0;
  std::int32_t mpi_size = 0;
  plugin::call_or_throw(rank_and_size, &mpi_rank, &mpi_size);
  if (mpi_rank != rank || mpi_size != size)
    throw Error(ErrorCode::mismatch, "MPI says rank " + std::to_string(mpi_rank) + " of " +
                                         std::to_string(mpi_size) + ", the environment rank " +
                                         std::to_string(rank) + " of " + std::to_string(size) +
                                         "; give the store's address (MASTER_ADDR and MASTER_PORT)");
  return [broadcast](std::string& text, int root) {
    std::array<char, kMessageBytes> bytes{};
    text.copy(bytes.data(), bytes.size() - 1);
    plugin::call_or_throw(broadcast, bytes.data(), bytes.size(), root);
    text = bytes.data();
  };
}

std::vector<std::string> host_addresses(const std::string& interface_name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  std::vector<std::string> v4;
  std::vector<std::string> v6;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_LOOPBACK) != 0 || (each->ifa_flags & IFF_UP) == 0)
      continue;
    if (!interface_name.empty() && interface_name != each->ifa_name) continue;
    const std::string text = text_of(each->ifa_addr);
    if (!text.empty()) (each->ifa_addr->sa_family == AF_INET ? v4 : v6).push_back(text);
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  v4.resize(std::min(v4.size(), kMostAddresses));
  return v4;
}

ServingPlan agree_on_serving(const TextBroadcast& broadcast, int rank, int size, const MpiNote& own) {
  ServingPlan plan;
  std::set<std::string> hosts;
  for (int root = 0; root < size; ++root) {
    std::string text = rank == root ? own.to_text() : "";
    broadcast(text, root);
    const MpiNote note = MpiNote::from_text(text);
    if (root == 0 && !note.addresses.empty()) plan.host = note.addresses.front();
    // All ranks of a host give the same addresses.
    if (hosts.insert(note.boot).second)
      plan.allow.insert(plan.allow.end(), note.addresses.begin(), note.addresses.end());
  }
  if (hosts.size() == 1) return {};
  if (plan.host == ServingPlan().host)
    throw Error(ErrorCode::unsupported,
                "rank 0's host has no address that the other hosts could reach; set MUSTER_STORE to a store "
                "that runs already, or MUSTER_SOCKET_IFNAME to a network interface");
  return plan;
}

std::string share_endpoint(const TextBroadcast& broadcast, int rank,
                           const std::function<std::string()>& serve) {
  std::string text;
  if (rank == 0) {
    try {
      text = "0 " + serve();
    } catch (const Error& error) {
      text = std::to_string(static_cast<int>(error.code())) + " " + error.what();
    }
  }
  broadcast(text, 0);
  int code = 0;
  const char* const end = std::from_chars(text.data(), text.data() + text.size(), code).ptr;
  std::string rest = text.substr(std::min(text.size(), static_cast<std::size_t>(end - text.data()) + 1));
  if (code != 0) throw Error(static_cast<ErrorCode>(code), rest);
  return rest;
}

}  // namespace muster
