// SPDX-License-Identifier: Apache-2.0
// Which clients of a store wait for which key, for whoever looks for the cause of a hang.
#pragma once

#include "rendezvous/c10d/session.hpp"
#include "rendezvous/core/store.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::rendezvous {

/// Bytes of a key that StoreWait quotes.
inline constexpr std::size_t kWaitKeyBytesMax = 200;

/// One client that waits for a key.
struct StoreWait {
  /// The ends of the client's connection: to the store, or on the host of `node` to that node's proxy.
  SocketAddress peer{};
  SocketAddress local{};
  /// The session of the node through which the client comes; none: it has a connection of its own.
  std::optional<SessionId> node{};
  /// The first key that it misses, and how many it misses besides. Of a long name the beginning.
  std::string key{};
  std::size_t more = 0;
  /// The key of the store that is nearest to that one (nearest_key()); empty: none is near.
  std::string nearest{};
  /// How many requests the client has made: as long as this stays the same, it is the same wait.
  std::uint64_t requests = 0;
};

/// Collects the waits of a store's clients. The nearest key is looked for once for each name, and only for a
/// few names. One thread.
class StoreWaits {
 public:
  /// Takes at most `most` waits. `store` outlives this object.
  StoreWaits(const Store& store, std::size_t most) : store_(store), most_(most) {}

  /// Adds a client if it waits, and returns its wait without its ends; nullptr if it does not wait, or there
  /// are enough. The pointer is good until the next call.
  StoreWait* add(const c10d::Session& client);

  std::vector<StoreWait> take() { return std::move(waits_); }

 private:
  std::string nearest(const std::string& key);

  const Store& store_;
  std::size_t most_;
  std::map<std::string, std::string> nearest_;
  std::vector<StoreWait> waits_;
};

}  // namespace muster::rendezvous
