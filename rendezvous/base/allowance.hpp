// SPDX-License-Identifier: Apache-2.0
// What this process may use of its machine: by its affinity mask, and by the limits of its control groups and
// of all above them (a container, a batch job).
#pragma once

#include <cstdint>
#include <string>

namespace muster {

struct Allowance {
  /// The number of processors that can be used at a time: those of the affinity mask, but no more than the
  /// quota, rounded up. At least 1.
  int processors = 1;
  /// The number of processors in the affinity mask.
  int affinity = 1;
  /// The number of processors whose time is granted ("--cpus 1.5"); 0: no quota.
  double quota = 0;
  /// The control group that sets the quota.
  std::string quota_group;
  /// The memory that can be used, in bytes: the machine's, or the lowest limit of a control group; 0: not
  /// known.
  std::uint64_t memory = 0;
  /// The control group that sets the memory limit; empty: only the machine's memory bounds it.
  std::string memory_group;

  /// Whether the quota leaves fewer processors than the affinity mask shows to programs that ask for it (as
  /// OpenMP does).
  bool quota_decides() const { return processors < affinity; }
};

/// Reads what this process may use. `root` is put before every path that is read, so that a test can give a
/// tree of its own.
Allowance read_allowance(const std::string& root = "");

/// The bytes of memory that this process can still get before another process has to give some back: what the
/// machine has, and what the limits leave. Cached files count as free. 0: not known.
std::uint64_t free_memory(const std::string& root = "");

/// A digit for each processor of the host, '1' where this thread may run on it (sched_getaffinity). At least
/// one digit.
std::string processor_mask();

}  // namespace muster
