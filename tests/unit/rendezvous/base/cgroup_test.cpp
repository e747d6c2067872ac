// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/cgroup.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <filesystem>

using namespace muster;

namespace {

/// "NAME=FOLDER" of each, those of version 2 with a '+'.
std::string shown(const std::vector<Cgroup>& groups) {
  std::string text;
  for (const Cgroup& group : groups)
    text += (text.empty() ? "" : " ") + group.name + "=" + group.folder + (group.unified ? "+" : "");
  return text;
}

const std::string kUnified =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kMemory = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
const std::string kCpu = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

}  // namespace

TEST_CASE("The control groups of a process, its own first") {
  const std::string member =
      "9:name=systemd:/x\n4:memory:/docker/4f\n2:cpu,cpuacct:/job\n0::/user.slice/a.scope\n";
  CHECK(shown(cgroups_in("0::/user.slice/a.scope\n", kUnified, "memory")) ==
        "/user.slice/a.scope=/sys/fs/cgroup/user.slice/a.scope+ /user.slice=/sys/fs/cgroup/user.slice+ "
        "/=/sys/fs/cgroup+");
  CHECK(shown(cgroups_in(member, kUnified + kMemory + kCpu, "memory")) ==
        "/docker/4f=/sys/fs/cgroup/memory/docker/4f /docker=/sys/fs/cgroup/memory/docker "
        "/=/sys/fs/cgroup/memory");
  CHECK(shown(cgroups_in(member, kMemory + kCpu, "cpu")) ==
        "/job=/sys/fs/cgroup/cpu,cpuacct/job /=/sys/fs/cgroup/cpu,cpuacct");
  CHECK(shown(cgroups_in("0::/\n", kUnified, "memory")) == "/=/sys/fs/cgroup+");
  CHECK(cgroups_in(member, "", "memory").empty());
  CHECK(cgroups_in("", kMemory, "memory").empty());
  CHECK(cgroups_in(member, kCpu, "memory").empty());
}

TEST_CASE("In a container the groups above it are not seen") {
  const std::string mounts = "35 31 0:32 /docker/4f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  CHECK(shown(cgroups_in("4:memory:/docker/4f\n", mounts, "memory")) == "/docker/4f=/sys/fs/cgroup/memory");
  CHECK(shown(cgroups_in("4:memory:/docker/4f/job\n", mounts, "memory")) ==
        "/docker/4f/job=/sys/fs/cgroup/memory/job /docker/4f=/sys/fs/cgroup/memory");
  // A process that entered the container from outside its namespaces.
  CHECK(shown(cgroups_in("4:memory:/../other\n", kMemory, "memory")) == "/=/sys/fs/cgroup/memory");
  CHECK(shown(cgroups_in("4:memory:/elsewhere\n", mounts, "memory")) == "/docker/4f=/sys/fs/cgroup/memory");
}

TEST_CASE("Paths with blanks are escaped in the table of mounts") {
  CHECK(shown(cgroups_in("0::/a b\n", "1 2 0:3 / /my\\040groups rw - cgroup2 none rw\n", "cpu")) ==
        "/a b=/my groups/a b+ /=/my groups+");
}

TEST_CASE("Numbers in the files of a control group") {
  const test::Folder folder;
  folder.write("memory.max", "536870912\n");
  folder.write("memory.events", "low 0\nhigh 3\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n");
  const Cgroup unified{"/job", folder.path(), true};
  CHECK(memory_limit(unified) == 536870912U);
  CHECK(cgroup_number(unified, "memory.events", "oom") == 2U);
  CHECK(cgroup_number(unified, "memory.events", "oom_kill") == 1U);
  CHECK_FALSE(cgroup_number(unified, "memory.events", "oom_"));
  CHECK_FALSE(cgroup_number(unified, "memory.peak"));
  folder.write("memory.max", "max\n");
  CHECK_FALSE(memory_limit(unified));
  const Cgroup version1{"/job", folder.path(), false};
  folder.write("memory.limit_in_bytes", "9223372036854771712\n");
  CHECK_FALSE(memory_limit(version1));
  folder.write("memory.limit_in_bytes", "4096\n");
  CHECK(memory_limit(version1) == 4096U);
}

TEST_CASE("The groups of this process are read below a root of the test's own") {
  const test::Folder root;
  std::filesystem::create_directories(root / "proc/self");
  root.write("proc/self/cgroup", "0::/pod/box\n");
  root.write("proc/self/mountinfo", kUnified);
  CHECK(shown(own_cgroups("memory", root.path())) ==
        "/pod/box=" + root.path() + "/sys/fs/cgroup/pod/box+ /pod=" + root.path() +
            "/sys/fs/cgroup/pod+ /=" + root.path() + "/sys/fs/cgroup+");
}
