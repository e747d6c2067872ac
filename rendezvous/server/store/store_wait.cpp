// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/store/store_wait.hpp"

#include "rendezvous/core/nearest_key.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <string_view>

namespace muster::rendezvous {
namespace {

// Keys whose nearest neighbours are looked for when somebody asks who waits.
constexpr std::size_t kNearestMax = 4;

}  // namespace

StoreWait* StoreWaits::add(const c10d::Session& client) {
  if (waits_.size() >= most_) return nullptr;
  const std::vector<std::string_view> keys = client.awaited(kMaxKeysPerRequest);
  if (keys.empty()) return nullptr;
  StoreWait& wait = waits_.emplace_back();
  wait.key = keys.front().substr(0, kWaitKeyBytesMax);
  wait.more = keys.size() - 1;
  wait.requests = client.requests();
  // A name that was cut is no key that could have a neighbour.
  if (keys.front().size() <= kWaitKeyBytesMax) wait.nearest = nearest(wait.key);
  return &wait;
}

std::string StoreWaits::nearest(const std::string& key) {
  const auto known = nearest_.find(key);
  if (known != nearest_.end()) return known->second;
  if (nearest_.size() >= kNearestMax) return "";
  return nearest_[key] = nearest_key(store_, key);
}

}  // namespace muster::rendezvous
