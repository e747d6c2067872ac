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

/// A rank that has launched a collective which another rank of the same communicator has not.
struct NcclWait {
  /// The numeric address that NCCL uses on the rank's host, and its process there.
  std::string host{};
  int pid = 0;
  /// The collective as PyTorch names it ("all_reduce"), and how many of its kind the rank has launched in
  /// this communicator.
  std::string operation{};
  std::uint64_t launched = 0;
  /// Tells communicators apart ("NCCL 1c41c0e2"); empty if the job has one only.
  std::string communicator{};
};

/// The ranks of an answer that are ahead of others. `answer`: what the port says after "set format json" and
/// "verbose status", with its lines before the JSON (NCCL 2.28.7 and newer; the format is that of NCCL's
/// src/ras/client_support.cc). Empty if it is something else.
std::vector<NcclWait> nccl_waits(std::string_view answer);

/// The wait of this process among those on hosts with one of these addresses. nullopt: it is not ahead.
std::optional<NcclWait> nccl_wait_of(const std::vector<NcclWait>& waits, int pid,
                                     const std::vector<std::string>& hosts);

}  // namespace muster::agent
