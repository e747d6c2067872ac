// SPDX-License-Identifier: Apache-2.0
// How the ranks of a group find each other before NCCL can: who each is, and NCCL's unique id.
#pragma once

#include "worker_sdk/comm/nccl/library.hpp"
#include "worker_sdk/comm/plugin/plugin_side.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster::nccl {

/// What the others must know of a rank.
struct Member {
  int rank = 0;
  std::string host;     ///< its name, for messages
  std::string machine;  ///< what NCCL takes for its host: NCCL_HOSTID where that is set
  std::string gpu;      ///< bus id
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

/// Tells the others that this rank cannot come (the library is missing, say), so that they need not wait.
void cannot_join(const plugin::Host& host, int rank, int size, const Error& error) noexcept;

}  // namespace muster::nccl
