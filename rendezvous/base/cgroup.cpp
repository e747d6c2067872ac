// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/cgroup.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace muster {
namespace {

constexpr std::size_t kMostBytes = 1U << 20;
/// Version 1 says that there is no limit by a number that no machine has: the largest whole page.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

bool is_listed(const std::string& list, const std::string& wanted) {
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');)
    if (item == wanted) return true;
  return false;
}

/// A tree of groups that is mounted.
struct Mount {
  /// The group that is seen at the mount point: "/", or the group of the container.
  std::string top;
  std::string point;
  bool unified = false;
};

/// Finds the tree of `controller` in lines like "36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup
/// cgroup rw,memory". A tree of version 1 is preferred where there are both.
std::optional<Mount> mount_of(const std::string& mounts, const std::string& controller) {
  std::optional<Mount> found;
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream place(line.substr(0, dash));
    std::istringstream what(line.substr(dash + 3));
    std::string id;
    std::string type;
    std::string source;
    std::string options;
    Mount mount;
    place >> id >> id >> id >> mount.top >> mount.point;
    what >> type >> source >> options;
    mount.top = octal_unescaped(mount.top);
    mount.point = octal_unescaped(mount.point);
    mount.unified = type == "cgroup2";
    if (type == "cgroup" && is_listed(options, controller)) return mount;
    if (mount.unified && !found) found = mount;
  }
  return found;
}

/// The path of the process's group in its tree, from a line like "4:memory:/docker/4f1c" or "0::/user.slice".
std::optional<std::string> group_of(const std::string& membership, const std::string& controller,
                                    bool unified) {
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (unified ? controllers.empty() : is_listed(controllers, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The part of `path` that lies below `top`; empty for `top` itself, and for a group that is not seen from
/// here.
std::string below(const std::string& path, const std::string& top) {
  const std::string prefix = top == "/" ? "" : top;
  const bool inside = path.starts_with(prefix + "/") && path.find("/..") == std::string::npos;
  return inside && path.size() > prefix.size() + 1 ? path.substr(prefix.size()) : "";
}

std::string text_of(const Cgroup& group, const std::string& file) {
  return read_file(group.folder + "/" + file, kMostBytes).value_or("");
}

}  // namespace

std::vector<Cgroup> cgroups_in(const std::string& membership, const std::string& mounts,
                               const std::string& controller) {
  std::vector<Cgroup> groups;
  const auto mount = mount_of(mounts, controller);
  if (!mount) return groups;
  const auto path = group_of(membership, controller, mount->unified);
  if (!path) return groups;
  const std::string top = mount->top == "/" ? "" : mount->top;
  for (std::string rest = below(*path, mount->top);; rest.erase(rest.rfind('/'))) {
    const std::string name = top + rest;
    groups.push_back({name.empty() ? "/" : name, mount->point + rest, mount->unified});
    if (rest.empty()) return groups;
  }
}

std::vector<Cgroup> own_cgroups(const std::string& controller, const std::string& root) {
  const auto text = [&root](const char* path) { return read_file(root + path, kMostBytes).value_or(""); };
  std::vector<Cgroup> groups =
      cgroups_in(text("/proc/self/cgroup"), text("/proc/self/mountinfo"), controller);
  for (Cgroup& group : groups) group.folder = root + group.folder;
  return groups;
}

std::optional<std::uint64_t> cgroup_number(const Cgroup& group, const std::string& file) {
  const std::string text = text_of(group, file);
  return parse_number<std::uint64_t>(text.substr(0, text.find('\n')));
}

std::optional<std::uint64_t> cgroup_number(const Cgroup& group, const std::string& file,
                                           const std::string& key) {
  std::istringstream lines(text_of(group, file));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(key + " ")) return parse_number<std::uint64_t>(line.substr(key.size() + 1));
  return std::nullopt;
}

std::optional<std::uint64_t> memory_limit(const Cgroup& group) {
  const auto limit = cgroup_number(group, group.unified ? "memory.max" : "memory.limit_in_bytes");
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

}  // namespace muster
