// SPDX-License-Identifier: Apache-2.0
// How the ranks of a group find each other before NCCL can: who each is, and NCCL's unique id.
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

/// What the others must know of a rank.
struct Member {
  int rank = 0;
  std::string host;     ///< its name, for messages
  std::string machine;  ///< what NCCL takes for its host: NCCL_HOSTID where that is set
  std::string gpu;      ///< bus id
  std::string kind;     ///< of the GPU, as kind_of() has it
  int version = 0;      ///< of NCCL
  std::int32_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
  std::string boot;  ///< of the kernel: pids of one boot and namespace can be watched

  std::string encode() const;
  /// Throws Error (backend) when the text is not one.
  static Member decode(const std::string& text);
};

/// This process, with `device`.
Member this_member(const Library& api, int rank, int device, const std::string& host);

struct Joined {
  ncclUniqueId id{};
  std::vector<Member> members;  ///< by rank
};

/// Rank 0 waits for all, compares them, and gives out the id. Throws Error: what kept any of them away, on
/// all ranks. `make_member` finds what this rank is and may throw.
Joined join(const plugin::Host& host, const Library& api, int rank, int size, std::chrono::milliseconds limit,
            const std::string& group, const std::function<Member()>& make_member);

/// Which ranks have GPUs of different kinds, so that the faster wait for the slower in every call; "" where
/// all are alike.
std::string mixed_gpus(const std::vector<Member>& members);

/// Tells the others that this rank cannot come (the library is missing, say), so that they need not wait.
void cannot_join(const plugin::Host& host, int rank, int size, const Error& error) noexcept;

/// The ranks of a group: their names, and whether those on this host still live. One thread at a time.
class Peers {
 public:
  Peers(std::vector<Member> members, int rank, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(members_.size()); }

  /// "rank 1 (rank 5 of the world, host b, process 4711)".
  std::string name_of(int peer) const;

  /// A rank whose process has ended, of those that can be seen from here.
  std::optional<int> find_gone();

 private:
  std::vector<Member> members_;
  std::vector<int> world_ranks_;
  std::vector<int> watched_;
  shm::PeerWatch watch_;
};

}  // namespace muster::nccl
