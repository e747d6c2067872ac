// SPDX-License-Identifier: Apache-2.0
// What this process may use of its machine: by its affinity mask, and by the limits of its control groups and
// of all above them (a container, a batch job).
#pragma once

#include <cstdint>
#include <string>

namespace muster {

struct Allowance {
  /// So many can run at a time: those of the affinity mask, but no more than the quota, rounded up. At
  /// least 1.
  int processors = 1;
  /// Processors of the affinity mask.
  int affinity = 1;
  /// Time of so many processors is given ("--cpus 1.5"); 0: no quota.
  double quota = 0;
  /// The control group whose quota it is.
  std::string quota_group;
  /// Bytes: the machine's, or the least limit; 0: not known.
  std::uint64_t memory = 0;
  /// The control group whose limit it is; empty: the machine has no more.
  std::string memory_group;

  /// The quota leaves fewer processors than the mask shows to a program that asks for it, as OpenMP does.
  bool quota_decides() const { return processors < affinity; }
};

/// `root` is put before every path that is read; a test gives a tree of its own.
Allowance read_allowance(const std::string& root = "");

/// Bytes that this process can still get without another one giving any back: what the machine has, and what
/// the limits leave. Cached files count as free. 0: not known.
std::uint64_t free_memory(const std::string& root = "");

/// A digit for each processor of the host, '1' where this thread may run on it (sched_getaffinity). At least
/// one digit.
std::string processor_mask();

}  // namespace muster
