// SPDX-License-Identifier: Apache-2.0
// The kernel's control groups that a process is in: version 1 with a tree for each controller, version 2 with
// one tree for all, and both beside each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

struct Cgroup {
  /// As /proc/PID/cgroup has it, for people: "/docker/4f1c".
  std::string name;
  /// Where its files are.
  std::string folder;
  /// Of version 2.
  bool unified = false;
};

/// The group that a process is in for `controller` ("memory", "cpu"), then all above it, as far as they are
/// mounted here; a limit of any of them holds. `membership` is the text of its /proc/PID/cgroup, `mounts`
/// that of /proc/self/mountinfo. Empty if no tree of that controller is mounted. Pure.
std::vector<Cgroup> cgroups_in(const std::string& membership, const std::string& mounts,
                               const std::string& controller);

/// Those of this process. `root` is put before every path that is read; a test gives a tree of its own.
std::vector<Cgroup> own_cgroups(const std::string& controller, const std::string& root = "");

/// The number that one of its files holds alone; nothing if there is no such file, or no number ("max", -1).
std::optional<std::uint64_t> cgroup_number(const Cgroup& group, const std::string& file);

/// The number behind `key` in one of its files of lines "KEY NUMBER".
std::optional<std::uint64_t> cgroup_number(const Cgroup& group, const std::string& file,
                                           const std::string& key);

/// What bounds its memory, in bytes; nothing if nothing does.
std::optional<std::uint64_t> memory_limit(const Cgroup& group);

}  // namespace muster
