// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/backoff.hpp"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {

Backoff::Backoff(BackoffOptions options, std::function<double()> random)
    : options_(options), random_(std::move(random)), wait_ms_(static_cast<double>(options.base.count())) {}

Milliseconds Backoff::next() {
  const auto cap_ms = static_cast<double>(options_.cap.count());
  const double spread = 1.0 + options_.jitter * (2.0 * random_() - 1.0);
  const double wait_ms = std::min(wait_ms_ * spread, cap_ms);
  wait_ms_ = std::min(wait_ms_ * options_.factor, cap_ms);
  return Milliseconds(static_cast<Milliseconds::rep>(wait_ms));
}

void Backoff::reset() {
  wait_ms_ = static_cast<double>(options_.base.count());
}

}  // namespace muster::rendezvous
