// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/named_barrier.hpp"

#include "muster/error.hpp"
#include "worker_sdk/world/roll_call.hpp"

namespace muster {

using std::chrono::milliseconds;

std::string NamedBarrier::key(const std::string& name, std::int64_t time) const {
  return "barrier/" + name + "/" + std::to_string(time) + "/";
}

/// Deletes this rank's key of a barrier that it has passed and does not read any more; the last rank to pass
/// deletes the remaining keys.
void NamedBarrier::leave(StoreClient& store, const std::string& base) const {
  store.delete_key(base + std::to_string(rank_));
  if (store.add(base + "count", 1) < 2 * static_cast<std::int64_t>(members_.size())) return;
  store.delete_key(base + "all");
  store.delete_key(base + "count");
}

/// Throws Error for any of the missing ranks that will not come.
void NamedBarrier::look_for_lost(StoreClient& store, const std::string& name) {
  const std::string base = key(name, states_[name].times);
  // A rank that has passed has deleted its key; the key for all ranks stays until this rank has passed as
  // well.
  const auto is_missing = [&](int rank) {
    return !store.check({base + std::to_string(rank)}) && !store.check({base + "all"});
  };
  const bool some_left = store.check({"left"});
  const ProcessIdentity& self = members_[static_cast<std::size_t>(rank_)];
  for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
    const ProcessIdentity& member = members_[static_cast<std::size_t>(rank)];
    const std::string who = "rank " + std::to_string(rank_) + " waits in vain at the barrier '" + name +
                            "': rank " + std::to_string(rank) + " (" + member.describe() + ") has ";
    if (some_left && store.check({"left/" + std::to_string(rank)}) && is_missing(rank)) {
      if (store.check({farewell_key(rank)}))
        throw Error(ErrorCode::aborted, who + "left the world: " + store.get(farewell_key(rank)));
      throw Error(ErrorCode::peer_lost, who + "left the world without it; see why in its output");
    }
    if (has_died_near(member, self) && is_missing(rank))
      throw Error(ErrorCode::peer_lost, who + "ended; see why in its output");
  }
}

void NamedBarrier::wait_for_all(StoreClient& store, const std::string& name, milliseconds limit) {
  const std::vector<std::string> all{key(name, states_[name].times) + "all"};
  if (!looks_) return store.wait(all, limit);
  wait_and_look(store, all, limit, [&] { look_for_lost(store, name); });
}

void NamedBarrier::throw_late(StoreClient& store, const std::string& name, milliseconds limit) {
  const State& state = states_[name];
  const auto size = static_cast<int>(members_.size());
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank)
    if (!store.check({key(name, state.times) + std::to_string(rank)})) missing.push_back(rank);
  // Ranks that have passed meanwhile have deleted their keys, so they must not be named as missing.
  if (store.check({key(name, state.times) + "all"})) missing.clear();
  throw Error(ErrorCode::deadline,
              "rank " + std::to_string(rank_) + " waited " + std::to_string(limit.count()) +
                  " ms at the barrier '" + name + "' (time " + std::to_string(state.times + 1) + ", " +
                  std::to_string(size) + " ranks); missing: " +
                  (missing.empty() ? "none any more, they came too late" : list_ranks(missing, members_)) +
                  "; see what they do, or call it again to go on waiting");
}

void NamedBarrier::wait(StoreClient& store, const std::string& name, milliseconds limit) {
  State& state = states_[name];
  const std::string base = key(name, state.times);
  if (!state.arrived) {
    store.set(base + std::to_string(rank_), "1");
    if (store.add(base + "count", 1) == static_cast<std::int64_t>(members_.size()))
      store.set(base + "all", "1");
    state.arrived = true;
  }
  try {
    wait_for_all(store, name, limit);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::deadline || store.is_silent()) throw;
    throw_late(store, name, limit);
  }
  state = {state.times + 1, false};
  leave(store, base);
}

}  // namespace muster
