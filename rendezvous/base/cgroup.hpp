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
  /// The path in /proc/PID/cgroup, for texts that people read: "/docker/4f1c".
  std::string name;
  /// The folder that holds the group's files.
  std::string folder;
  /// Whether the group belongs to version 2.
  bool unified = false;
};

/// The group that a process is in for `controller` ("memory", "cpu"), then all groups above it, as far as
/// they are mounted here; a limit of any of them holds. `membership` is the text of the process's
/// /proc/PID/cgroup, `mounts` the text of /proc/self/mountinfo. Empty if no tree of that controller is
/// mounted. Pure.
std::vector<Cgroup> cgroups_in(const std::string& membership, const std::string& mounts,
                               const std::string& controller);

/// The groups of this process. `root` is put before every path that is read, so that a test can give a tree
/// of its own.
std::vector<Cgroup> own_cgroups(const std::string& controller, const std::string& root = "");

/// The number that is the whole text of one of the group's files; nothing if there is no such file, or no
/// number in it ("max", -1).
std::optional<std::uint64_t> cgroup_number(const Cgroup& group, const std::string& file);

/// The number behind `key` in one of the group's files of lines "KEY NUMBER".
std::optional<std::uint64_t> cgroup_number(const Cgroup& group, const std::string& file,
                                           const std::string& key);

/// The group's memory limit in bytes; nothing if there is none.
std::optional<std::uint64_t> memory_limit(const Cgroup& group);

}  // namespace muster
