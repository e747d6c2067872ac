// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/quiet_thread.hpp"
#include "worker_sdk/comm/gloo/gloo_transport.hpp"
#include "worker_sdk/comm/message/plugin_group.hpp"

#include <arpa/inet.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::gloo_backend {
namespace {

using std::chrono::milliseconds;

constexpr const char* kLoopback = "127.0.0.1";
/// The factor between the time that Gloo gives a connection and the time that it is told.
constexpr int kConnectFactor = 5;

/// Gives Gloo our store as its own kind of store.
class Keys final : public gloo::rendezvous::Store {
 public:
  Keys(const plugin::Host& host, milliseconds limit) : host_(host), limit_(limit) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    host_.set(key, std::string(data.begin(), data.end()));
  }

  std::vector<char> get(const std::string& key) override {
    const std::string value = host_.get(key, limit_);
    return {value.begin(), value.end()};
  }

  void wait(const std::vector<std::string>& keys) override { wait(keys, limit_); }

  void wait(const std::vector<std::string>& keys, const milliseconds&) override {
    for (const std::string& key : keys) host_.get(key, limit_);
  }

 private:
  const plugin::Host& host_;
  milliseconds limit_;
};

bool is_loopback(std::string_view address) {
  return address.empty() || address.substr(0, 4) == "127." || address == "::1";
}

/// The address of the named interface, or of the first one that leads out of this host; "" when there is
/// none.
std::string address_of(const std::string& interface_name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  std::string found;
  for (const ifaddrs* entry = list; entry != nullptr && found.empty(); entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const bool named = interface_name == entry->ifa_name;
    if (interface_name.empty() ? (entry->ifa_flags & IFF_LOOPBACK) != 0 : !named) continue;
    if (entry->ifa_addr->sa_family != AF_INET) continue;
    char text[NI_MAXHOST] = "";
    if (getnameinfo(entry->ifa_addr, sizeof(sockaddr_in), text, sizeof(text), nullptr, 0, NI_NUMERICHOST) ==
        0)
      found = text;
  }
  freeifaddrs(list);
  return found;
}

/// The only address on which this rank listens.
std::string own_address(const muster_plugin_group_options& options, const plugin::Host& host,
                        milliseconds limit) {
  if (options.interface_name != nullptr) {
    const std::string address = address_of(options.interface_name);
    if (address.empty())
      throw Error(ErrorCode::invalid_argument,
                  message::name_of(options, options.rank) + ": the network interface '" +
                      options.interface_name +
                      "' is not there, is down or has no IPv4 address; set MUSTER_SOCKET_IFNAME to another "
                      "('ip address' lists them)");
    return address;
  }
  bool one_host = true;
  for (int rank = 1; rank < options.size; ++rank)
    one_host = one_host && std::string_view(options.hosts[rank]) == options.hosts[0];
  if (one_host) return kLoopback;
  const std::string mine = options.address == nullptr ? "" : options.address;
  host.set("address/" + std::to_string(options.rank), mine);
  bool all_loopback = true;
  for (int rank = 0; rank < options.size; ++rank)
    all_loopback = all_loopback && is_loopback(host.get("address/" + std::to_string(rank), limit));
  if (all_loopback) return kLoopback;  // the hosts are told apart by name only
  if (!is_loopback(mine)) return mine;
  const std::string address = address_of("");
  if (address.empty())
    throw Error(ErrorCode::unsupported, message::name_of(options, options.rank) +
                                            " has no network interface with an IPv4 address that other hosts "
                                            "could reach; set MUSTER_SOCKET_IFNAME");
  return address;
}

std::unique_ptr<message::Transport> connect_all(const muster_plugin_group_options& options,
                                                const plugin::Host& host) {
  const milliseconds limit(options.join_timeout_ms);
  message::say_here(options, host);
  gloo::transport::tcp::attr attributes;
  attributes.hostname = own_address(options, host, limit);
  try {
    // The signals are blocked because Gloo's device starts a thread.
    auto device = [&attributes] {
      const SignalsBlocked blocked;
      return gloo::transport::tcp::CreateDevice(attributes);
    }();
    auto context = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context->setTimeout(std::max(limit / kConnectFactor, milliseconds(100)));
    Keys keys(host, limit);
    if (options.size > 1) context->connectFullMesh(keys, device);
    return std::make_unique<GlooTransport>(std::move(context));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::backend, message::name_of(options, options.rank) + " cannot connect the group '" +
                                        options.group + "' from " + attributes.hostname +
                                        " (Gloo: " + error.what() +
                                        "); see whether the hosts reach each other there, or name another "
                                        "interface in MUSTER_SOCKET_IFNAME");
  }
}

/// Connects this rank to all others over TCP; the ranks find each other through the store. The rank listens
/// on one address only: loopback if all ranks are on this host; the address of the interface that was asked
/// for; else the address by which this host reaches the store.
std::unique_ptr<message::Transport> connect(const muster_plugin_group_options& options,
                                            const plugin::Host& host) {
  try {
    return connect_all(options, host);
  } catch (const Error& error) {
    // An error with Gloo's keys would not help its reader, so it is replaced by one that names ranks.
    if (error.code() != ErrorCode::deadline) throw;
    const std::string absent = message::list_absent(options, host);
    if (absent.empty()) throw;
    throw message::too_late(options, absent);
  }
}

/// Always answers that Gloo can be used: the library came with the plug-in, and every host has TCP.
std::string probe(int) {
  return "";
}

constexpr plugin::Maker kMaker = message::maker_of<connect>("gloo", probe);
constexpr muster_plugin kTable = plugin::table_of<kMaker>();

}  // namespace
}  // namespace muster::gloo_backend

const muster_plugin* muster_plugin_entry() {
  return &muster::gloo_backend::kTable;
}
