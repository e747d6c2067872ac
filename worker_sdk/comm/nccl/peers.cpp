// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/peers.hpp"

#include <utility>

namespace muster::nccl {

Peers::Peers(std::vector<Member> members, int rank, std::vector<int> world_ranks)
    : members_(std::move(members)), world_ranks_(std::move(world_ranks)), watch_(size()) {
  const Member& own = members_[static_cast<std::size_t>(rank)];
  for (const Member& member : members_) {
    const bool visible = !own.boot.empty() && member.boot == own.boot && own.pid_namespace != 0 &&
                         member.pid_namespace == own.pid_namespace;
    if (visible && member.pid != own.pid) watched_.push_back(member.rank);
  }
}

std::string Peers::name_of(int peer) const {
  const auto index = static_cast<std::size_t>(peer);
  const Member& member = members_[index];
  std::string text = "rank " + std::to_string(peer) + " (";
  if (world_ranks_[index] != peer) text += "rank " + std::to_string(world_ranks_[index]) + " of the world, ";
  return text + "host " + member.host + ", process " + std::to_string(member.pid) + ")";
}

std::optional<int> Peers::find_gone() {
  for (const int peer : watched_) {
    const Member& member = members_[static_cast<std::size_t>(peer)];
    if (watch_.is_gone(peer, member.pid, member.start_time)) return peer;
  }
  return std::nullopt;
}

}  // namespace muster::nccl
