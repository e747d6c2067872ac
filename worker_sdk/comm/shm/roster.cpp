// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/shm/roster.hpp"

#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/text.hpp"

namespace muster::shm {

Roster::Roster(Layout layout, const GroupPlan& plan)
    : layout_(layout), watch_(plan.size), pid_namespace_(own_pid_namespace()) {
  for (int rank = 0; rank < plan.size; ++rank) shown_.push_back(plan.shown(rank));
}

std::string Roster::name_of(int peer) const {
  const Identity& identity = layout_.block(peer).identity;
  const std::string rank = "rank " + std::to_string(shown(peer));
  if (!identity.has_joined()) return rank + " (not joined yet)";
  return rank + " (process " + std::to_string(identity.pid()) + ")";
}

std::string Roster::describe(Call call) const {
  const bool is_rank = call.root >= 0 && static_cast<std::size_t>(call.root) < shown_.size();
  if (is_rank) call.root = shown(call.root);
  return muster::describe(call);
}

/// Whether the process number of `peer` is valid in this process.
bool Roster::is_visible(int peer) const {
  const Identity& identity = layout_.block(peer).identity;
  return identity.has_joined() && identity.pid_namespace() == pid_namespace_;
}

bool Roster::is_dead(int peer) {
  const Identity& identity = layout_.block(peer).identity;
  return is_visible(peer) && watch_.is_gone(peer, identity.pid(), identity.start_time());
}

std::string Roster::state_of(int peer) const {
  const bool stopped = is_visible(peer) && is_stopped(layout_.block(peer).identity.pid());
  return stopped ? ", which is stopped (by SIGSTOP or a debugger)" : "";
}

std::string Roster::state_of(int peer, std::uint64_t turn, const Call& call, bool entered) const {
  std::string text = state_of(peer);
  text += text.empty() ? ", which" : " and";
  if (entered) return text + " has entered it and does not go on";
  text += " never entered it";
  if (turn <= 1) return text;
  // The peer's record of the call before stays as it is until this rank has done the present call.
  const Call before = call_of(layout_.line(peer, turn - 1).print, call.sequence - 1);
  const bool done = layout_.block(peer).completed.get() >= turn - 1;
  return text + (done ? " (the last that it completed is " : " (it is still in ") + describe(before) + ")";
}

std::string Roster::waiting_text(const std::vector<int>& ranks) const {
  return std::to_string(ranks.size()) + (ranks.size() == 1 ? " rank waits: " : " ranks wait: ") +
         joined_by(ranks, [this](int rank) { return std::to_string(shown(rank)); });
}

}  // namespace muster::shm
