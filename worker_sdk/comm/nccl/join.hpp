// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of a group find each other before NCCL can: they exchange facts about each rank, and NCCL's
// unique id.
#pragma once

#include "worker_sdk/comm/nccl/library.hpp"
#include "worker_sdk/comm/plugin/plugin_side.hpp"
#include "worker_sdk/comm/shm/peer_watch.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::nccl {

/// The facts about a rank that the others must know.
struct Member {
  int rank = 0;
  std::string host;     ///< name of the host, for messages
  std::string machine;  ///< host as NCCL sees it: NCCL_HOSTID where that is set
  std::string gpu;      ///< bus id of the GPU
  std::string kind;     ///< kind of the GPU, as kind_of() names it
  int version = 0;      ///< version of NCCL
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
  std::string boot;  ///< id of the kernel's boot: pids of one boot and namespace can be watched

  std::string encode() const;
  /// Reads a member; throws Error (backend) when the text is none.
  static Member decode(const std::string& text);
};

/// The facts about this process, which uses `device`.
Member this_member(const Library& api, int rank, int device, const std::string& host);

struct Joined {
  ncclUniqueId id{};
  std::vector<Member> members;  ///< one entry per rank
};

/// Brings the ranks together: rank 0 waits for all, compares them, and gives out the id. Throws Error on all
/// ranks with the cause that kept any of them away. `make_member` finds the facts about this rank and may
/// throw.
Joined join(const plugin::Host& host, const Library& api, int rank, int size, std::chrono::milliseconds limit,
            const std::string& group, const std::function<Member()>& make_member);

/// A text about the ranks that have GPUs of different kinds, where the faster wait for the slower in every
/// call; "" if all are alike.
std::string mixed_gpus(const std::vector<Member>& members);

/// Tells the others that this rank cannot come (the library is missing, say), so that they do not wait for
/// it.
void cannot_join(const plugin::Host& host, int rank, int size, const Error& error) noexcept;

/// The names of a group's ranks, and whether those on this host still live. One thread at a time.
class Peers {
 public:
  Peers(std::vector<Member> members, int rank, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(members_.size()); }

  /// The name of a rank: "rank 1 (rank 5 of the world, host b, process 4711)".
  std::string name_of(int peer) const;

  /// A rank whose process has ended, among those that this process can see.
  std::optional<int> find_gone();

 private:
  std::vector<Member> members_;
  std::vector<int> world_ranks_;
  std::vector<int> watched_;
  shm::PeerWatch watch_;
};

}  // namespace muster::nccl
