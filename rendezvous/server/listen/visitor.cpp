// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/listen/visitor.hpp"

#include <algorithm>

namespace muster::rendezvous {

/// The probability of dropping a new connection: 0 up to half of the limit, then rising to 1.
double ConnectionGate::drop_share(std::size_t count, std::size_t limit) {
  if (count >= limit) return 1.0;
  const std::size_t half = limit / 2;
  return count < half ? 0.0 : static_cast<double>(count - half + 1) / static_cast<double>(limit - half + 1);
}

bool ConnectionGate::enter(std::string_view address, double chance) {
  const std::string key(address);
  const auto found = by_address_.find(key);
  const std::size_t of_address = found == by_address_.end() ? 0 : found->second;
  const double share =
      std::max(drop_share(size_, limits_.total), drop_share(of_address, limits_.per_address));
  if (chance < share) return false;
  ++size_;
  ++by_address_[key];
  return true;
}

void ConnectionGate::leave(std::string_view address) {
  const auto found = by_address_.find(std::string(address));
  if (found == by_address_.end()) return;
  --size_;
  if (--found->second == 0) by_address_.erase(found);
}

}  // namespace muster::rendezvous
