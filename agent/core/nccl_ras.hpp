// SPDX-License-Identifier: Apache-2.0
// What NCCL itself tells of its ranks: its RAS port (reliability, availability, serviceability; NCCL 2.24 and
// newer) answers "verbose status" with how many collectives of each kind every rank has launched. A rank that
// waits for a GPU spins, and looks from outside as if it computed; these counts tell the two apart. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// The collective of a rank that has launched one which another rank of the same communicator has not.
struct NcclWait {
  /// As PyTorch names it ("all_reduce"); "a collective" where it may be one of several.
  std::string operation{};
  /// How many collectives, of all kinds, the rank and all ranks together have launched in this communicator.
  std::uint64_t sequence = 0;
  std::uint64_t by_all = 0;
  /// Tells communicators apart ("NCCL 1c41c0e2"); empty if the job has one only.
  std::string communicator{};

  bool operator==(const NcclWait&) const = default;
};

/// A process of the job.
struct NcclRank {
  /// The numeric address that NCCL uses on its host, and its number there.
  std::string host{};
  int pid = 0;
  /// How many collectives it has launched in all its communicators.
  std::uint64_t launched = 0;
  /// nullopt: it is ahead of nobody. It may be ahead for a moment in a job that is well, since launches are
  /// asynchronous.
  std::optional<NcclWait> wait{};
};

/// The processes of an answer, each once. `answer`: what the port says after "set format json" and "verbose
/// status", with its lines before the JSON (NCCL 2.28.7 and newer; the format is that of NCCL's
/// src/ras/client_support.cc). Empty if it is something else.
std::vector<NcclRank> nccl_ranks(std::string_view answer);

/// This process among those on hosts with one of these addresses; nullptr: it is not there.
const NcclRank* find_nccl_rank(const std::vector<NcclRank>& ranks, int pid,
                               const std::vector<std::string>& hosts);

}  // namespace muster::agent
