// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/allowance.hpp"

#include "rendezvous/base/cgroup.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

namespace muster {
namespace {

/// The number of processors whose time a group may use; nothing without a quota.
std::optional<double> quota_of(const Cgroup& group) {
  double quota = 0;
  double period = 0;
  if (group.unified) {  // the file holds "150000 100000" or "max 100000"
    std::istringstream text(read_file(group.folder + "/cpu.max").value_or(""));
    text >> quota >> period;
    if (!text) return std::nullopt;
  } else {  // a quota of -1 means that there is none; it is read as 0 here
    quota = static_cast<double>(cgroup_number(group, "cpu.cfs_quota_us").value_or(0));
    period = static_cast<double>(cgroup_number(group, "cpu.cfs_period_us").value_or(0));
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

/// The value of a line "KEY:   NUMBER kB" of /proc/meminfo, in bytes; 0 if there is no such line.
std::uint64_t machine_memory(const std::string& root, const std::string& key) {
  std::istringstream lines(read_file(root + "/proc/meminfo").value_or(""));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key + ":"))
      return static_cast<std::uint64_t>(leading_number(line.substr(key.size() + 1)).value_or(0)) * 1024;
  return 0;
}

/// The bytes of memory that a group may still take; nothing if it has no limit.
std::optional<std::uint64_t> room_in(const Cgroup& group) {
  const auto limit = memory_limit(group);
  const auto used = cgroup_number(group, group.unified ? "memory.current" : "memory.usage_in_bytes");
  if (!limit || !used) return std::nullopt;
  // The kernel drops cached files that nobody has read for a while before it refuses memory, so they count as
  // free.
  const std::uint64_t cached =
      cgroup_number(group, "memory.stat", group.unified ? "inactive_file" : "total_inactive_file")
          .value_or(0);
  const std::uint64_t held = *used - std::min(*used, cached);
  return *limit - std::min(*limit, held);
}

}  // namespace

Allowance read_allowance(const std::string& root) {
  Allowance allowance;
  const std::string mask = processor_mask();
  allowance.affinity = static_cast<int>(std::count(mask.begin(), mask.end(), '1'));
  for (const Cgroup& group : own_cgroups("cpu", root)) {
    const auto quota = quota_of(group);
    if (!quota || (allowance.quota > 0 && *quota >= allowance.quota)) continue;
    allowance.quota = *quota;
    allowance.quota_group = group.name;
  }
  allowance.processors = allowance.affinity;
  if (allowance.quota > 0 && allowance.quota < allowance.affinity)
    allowance.processors = std::max(1, static_cast<int>(std::ceil(allowance.quota)));
  allowance.memory = machine_memory(root, "MemTotal");
  for (const Cgroup& group : own_cgroups("memory", root)) {
    const auto limit = memory_limit(group);
    if (!limit || (allowance.memory > 0 && *limit >= allowance.memory)) continue;
    allowance.memory = *limit;
    allowance.memory_group = group.name;
  }
  return allowance;
}

std::uint64_t free_memory(const std::string& root) {
  std::uint64_t free = machine_memory(root, "MemAvailable");
  for (const Cgroup& group : own_cgroups("memory", root))
    if (const auto room = room_in(group)) free = std::min(free, *room);
  return free;
}

std::string processor_mask() {
  constexpr std::size_t kMostProcessors = 8192;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostProcessors);
  const auto free_set = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(kMostProcessors), free_set);
  std::string mask;
  if (set && sched_getaffinity(0, bytes, set.get()) == 0)
    for (std::size_t i = 0; i < kMostProcessors; ++i)
      if (CPU_ISSET_S(i, bytes, set.get())) mask.resize(i, '0'), mask += '1';
  // If the system does not tell the affinity mask, every processor of the host counts.
  return mask.empty() ? std::string(std::max(1U, std::thread::hardware_concurrency()), '1') : mask;
}

}  // namespace muster
