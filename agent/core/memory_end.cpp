// SPDX-License-Identifier: Apache-2.0
#include "agent/core/memory_end.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

namespace muster::agent {
namespace {

constexpr int kKilledInShell = 128 + SIGKILL;
constexpr const char* kPerhaps =
    "perhaps by the kernel's out-of-memory killer, which has struck on this host meanwhile";

std::uint64_t refusals_before(const MemorySnapshot& before, const std::string& group) {
  const auto found = std::find_if(before.groups.begin(), before.groups.end(),
                                  [&group](const MemoryCounts& counts) { return counts.group == group; });
  return found == before.groups.end() ? 0 : found->refusals;
}

/// Names the limit of the lowest group that refused something: version 2 counts a refusal in the groups above
/// as well. Groups below the agent's are left out unless `with_below`.
std::string limit_that_refused(const MemorySnapshot& before, const MemorySnapshot& after, bool with_below) {
  for (const MemoryCounts& counts : after.groups) {
    if (counts.below && !with_below) continue;
    if (counts.limit == 0 || counts.refusals <= refusals_before(before, counts.group)) continue;
    return "over the memory limit of " + memory_text(counts.limit) + " of cgroup '" + counts.group + "'" +
           (counts.peak > 0 ? " (peak " + memory_text(counts.peak) + ")" : "");
  }
  return "as the host had no memory left";
}

/// Whether a worker tells, by its exit code as a shell does or in its last words, that a child of its own was
/// killed.
bool tells_of_killed_child(int exit_code, std::string_view said) {
  // PyTorch's data loader in two moods, Python's subprocess, torchrun, shells.
  static constexpr auto kKilledWords =
      std::to_array<std::string_view>({"killed by signal: Killed", "exited unexpectedly", "SIGKILL",
                                       "Signals.9", "exit code -9", "exitcode: -9", "signal 9", "Killed"});
  return exit_code == kKilledInShell ||
         std::any_of(kKilledWords.begin(), kKilledWords.end(),
                     [said](std::string_view word) { return said.find(word) != std::string_view::npos; });
}

std::uint64_t rise(std::uint64_t before, std::uint64_t after) {
  return after > before ? after - before : 0;
}

std::string processes_text(std::uint64_t count) {
  return count == 1 ? "a process" : std::to_string(count) + " processes";
}

}  // namespace

MemoryEnd memory_end(const MemorySnapshot& before, const MemorySnapshot& after) {
  MemoryEnd end;
  if (before.counts_kills && after.counts_kills) {
    end.kills = rise(before.kills, after.kills);
    end.own_kills = rise(before.own_kills, after.own_kills);
    end.certainty = end.kills > 0 ? MemoryEnd::Certainty::certain : MemoryEnd::Certainty::nothing;
    end.elsewhere = before.counts_host_kills && after.counts_host_kills &&
                    rise(before.host_kills, after.host_kills) > end.kills;
  } else if (before.counts_host_kills && after.counts_host_kills) {
    end.kills = rise(before.host_kills, after.host_kills);
    end.certainty = end.kills > 0 ? MemoryEnd::Certainty::likely : MemoryEnd::Certainty::nothing;
  }
  if (end.kills > 0 && end.certainty == MemoryEnd::Certainty::certain)
    end.why = limit_that_refused(before, after, true);
  if (end.own_kills > 0) end.own_why = limit_that_refused(before, after, false);
  if (end.certainty == MemoryEnd::Certainty::likely) end.why = kPerhaps;
  return end;
}

std::string describe_own(const ExitStatus& status, const MemorySnapshot& before,
                         const MemorySnapshot& after) {
  const MemoryEnd end = memory_end(before, after);
  if (!status.killed()) return describe(status);
  if (end.certainty == MemoryEnd::Certainty::likely) return describe(status) + ", " + end.why;
  if (end.own_kills == 0) return describe(status);
  return describe(status) + "; since the job began the kernel has killed " + processes_text(end.own_kills) +
         " of its control group, " + end.own_why;
}

WorkerMemory RoundMemory::worker_failed(const ExitStatus& status, std::string_view said, bool alone,
                                        const MemorySnapshot& now) {
  const MemoryEnd end = memory_end(before_, now);
  if (end.kills <= told_ && end.elsewhere && status.killed())
    return {std::string(kPerhaps) + ", though not in the control group of the agent", false};
  if (end.kills <= told_) return {"", end.certainty != MemoryEnd::Certainty::unknown};
  if (status.killed()) {
    ++told_;
    return {end.why, false};
  }
  // A worker that ended for another reason may be in the same control group as the process that was killed.
  const bool tells = tells_of_killed_child(status.exit_code(), said);
  const bool its_own = tells || (alone && end.own_kills > told_);
  if (!its_own) return {};
  told_ = end.kills;
  return {"a process of its own was killed, " + (tells ? end.why : end.own_why), false};
}

std::string RoundMemory::note(const MemorySnapshot& now) const {
  const MemoryEnd end = memory_end(before_, now);
  if (end.own_kills <= told_) return "";
  const std::uint64_t count = end.own_kills - told_;
  return processes_text(count) + " in the control group of the workers " + (count == 1 ? "was" : "were") +
         " killed, " + end.own_why;
}

std::string memory_text(std::uint64_t bytes) {
  constexpr double kKiB = 1024;
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= kKiB && unit + 1 < kUnits.size()) number /= kKiB, ++unit;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), number < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", number,
                kUnits.at(unit));
  return text.data();
}

}  // namespace muster::agent
