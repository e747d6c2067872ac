// SPDX-License-Identifier: Apache-2.0
#include "agent/process/memory_counts.hpp"

#include "rendezvous/base/cgroup.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

namespace muster::agent {
namespace {

/// Most groups that are read, since a host's manager may have many. A group beyond that is missed only if a
/// worker is in it.
constexpr std::size_t kGroupsBelowMax = 256;

/// Returns the groups below the first one, parents before their children; none where the agent is in the
/// highest group, which has all of the host's below it.
std::vector<Cgroup> groups_below(const std::vector<Cgroup>& own_and_above) {
  namespace fs = std::filesystem;
  std::vector<Cgroup> found;
  if (own_and_above.size() < 2) return found;
  const Cgroup& own = own_and_above.front();
  std::error_code error;
  for (fs::recursive_directory_iterator entry(own.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->is_directory(error)) continue;
    const std::string folder = entry->path();
    found.push_back({own.name + folder.substr(own.folder.size()), folder, own.unified});
    if (found.size() == kGroupsBelowMax) break;
  }
  return found;
}

std::optional<std::uint64_t> kills_of(const Cgroup& group) {
  return cgroup_number(group, group.unified ? "memory.events" : "memory.oom_control", "oom_kill");
}

/// Returns the kills in a group of version 2 itself, without those in groups below; nothing before Linux 5.2.
std::optional<std::uint64_t> own_kills_of(const Cgroup& group) {
  return cgroup_number(group, "memory.events.local", "oom_kill");
}

std::uint64_t refusals_of(const Cgroup& group) {
  if (!group.unified)
    return cgroup_number(group, "memory.failcnt").value_or(0) +
           cgroup_number(group, "memory.memsw.failcnt").value_or(0);
  // Before Linux 5.2 there are only numbers that include all groups below.
  if (const auto local = cgroup_number(group, "memory.events.local", "oom")) return *local;
  return cgroup_number(group, "memory.events", "oom").value_or(0);
}

enum class Detail { counts, all };

MemoryCounts counts_of(const Cgroup& group, Detail detail) {
  MemoryCounts counts;
  counts.group = group.name;
  counts.refusals = refusals_of(group);
  if (detail == Detail::counts) return counts;
  counts.limit = memory_limit(group).value_or(0);
  counts.peak = cgroup_number(group, group.unified ? "memory.peak" : "memory.max_usage_in_bytes").value_or(0);
  return counts;
}

std::optional<std::uint64_t> host_kills(const std::string& root) {
  return cgroup_number(Cgroup{"/", root + "/proc", true}, "vmstat", "oom_kill");
}

MemorySnapshot read_counts(const std::string& root, Detail detail) {
  MemorySnapshot snapshot;
  if (const auto kills = host_kills(root)) {
    snapshot.host_kills = *kills;
    snapshot.counts_host_kills = true;
  }
  const std::vector<Cgroup> own_and_above = own_cgroups("memory", root);
  if (own_and_above.empty()) return snapshot;
  const Cgroup& own = own_and_above.front();
  if (const auto kills = kills_of(own)) {
    snapshot.kills = *kills;
    snapshot.own_kills = own.unified ? own_kills_of(own).value_or(*kills) : *kills;
    snapshot.counts_kills = true;
  }
  const std::vector<Cgroup> below = groups_below(own_and_above);
  for (auto group = below.rbegin(); group != below.rend(); ++group) {
    snapshot.groups.push_back(counts_of(*group, detail));
    snapshot.groups.back().below = true;
    // Version 2 has counted the kills of this group in the group above.
    if (!own.unified) snapshot.kills += kills_of(*group).value_or(0);
  }
  for (const Cgroup& group : own_and_above) snapshot.groups.push_back(counts_of(group, detail));
  return snapshot;
}

}  // namespace

bool may_have_killed_since(const MemorySnapshot& before, const std::string& root) {
  return !before.counts_host_kills || host_kills(root) != before.host_kills;
}

MemorySnapshot read_memory_counts(const std::string& root) {
  return read_counts(root, Detail::all);
}

MemorySnapshot read_memory_counts_before(const std::string& root) {
  return read_counts(root, Detail::counts);
}

}  // namespace muster::agent
