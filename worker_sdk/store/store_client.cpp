// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/store/store_client.hpp"

#include "rendezvous/base/deadline.hpp"

#include <poll.h>

#include <algorithm>

namespace muster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// The times before the first look and between later ones, at most. Ranks that come together within the first
/// need not look, and a long wait asks the store rarely.
constexpr milliseconds kFirstLook{100};
constexpr milliseconds kLastLook{1000};

}  // namespace

bool StoreClient::wait_or_wake(const std::vector<std::string>& keys, int descriptor, milliseconds timeout) {
  constexpr milliseconds kSlice{50};
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    pollfd entry{descriptor, POLLIN, 0};
    if (poll(&entry, 1, 0) > 0 || Clock::now() >= deadline) return false;
    try {
      wait(keys, std::min(kSlice, timeout));
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline) throw;
    }
  }
}

void wait_and_look(StoreClient& store, const std::vector<std::string>& keys, milliseconds limit,
                   const std::function<void()>& look) {
  const auto deadline = Clock::now() + limit;
  for (milliseconds slice = kFirstLook;; slice = std::min(slice * 2, kLastLook)) {
    const milliseconds left = left_until(deadline);
    try {
      // The error of the last part is thrown as that of the whole wait.
      return store.wait(keys, left <= slice ? WaitLimit(left, limit) : WaitLimit(slice));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline || left <= slice || store.is_silent()) throw;
    }
    try {
      look();
    } catch (const Error&) {
      if (!store.check(keys)) throw;
    }
  }
}

}  // namespace muster
