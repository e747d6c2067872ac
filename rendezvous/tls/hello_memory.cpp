// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/hello_memory.hpp"

#include <utility>

namespace muster::rendezvous {

bool HelloMemory::has(std::string_view random) const {
  const std::string key(random);
  return recent_.count(key) > 0 || older_.count(key) > 0;
}

bool HelloMemory::add(std::string_view random) {
  if (has(random)) return false;
  if (recent_.size() >= kept_) older_ = std::exchange(recent_, {});
  recent_.emplace(random);
  return true;
}

}  // namespace muster::rendezvous
