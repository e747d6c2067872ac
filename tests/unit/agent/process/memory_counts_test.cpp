// SPDX-License-Identifier: Apache-2.0
#include "agent/process/memory_counts.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <filesystem>

using namespace muster::agent;

namespace {

/// A root folder with a process in the group /pod/box of `mounts`, whose files the test writes.
class Tree {
 public:
  Tree(const std::string& membership, const std::string& mounts, const std::string& groups)
      : groups_(groups) {
    std::filesystem::create_directories(root_ / "proc/self");
    root_.write("proc/self/cgroup", membership);
    root_.write("proc/self/mountinfo", mounts);
    root_.write("proc/vmstat", "nr_free_pages 12\noom_kill 40\n");
  }

  void write(const std::string& group, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(root_ / (groups_ + group));
    root_.write(groups_ + group + "/" + file, text);
  }

  void write_host(const std::string& vmstat) const { root_.write("proc/vmstat", vmstat); }

  MemorySnapshot read() const { return read_memory_counts(root_.path()); }

  bool may_have_killed_since(const MemorySnapshot& before) const {
    return muster::agent::may_have_killed_since(before, root_.path());
  }

 private:
  muster::test::Folder root_;
  std::string groups_;
};

std::string shown(const MemorySnapshot& snapshot) {
  std::string text =
      snapshot.counts_kills ? std::to_string(snapshot.kills) + "," + std::to_string(snapshot.own_kills) : "?";
  for (const MemoryCounts& group : snapshot.groups)
    text += (group.below ? " below " : " ") + group.group + ":" + std::to_string(group.refusals) + "/" +
            std::to_string(group.limit) + "/" + std::to_string(group.peak);
  return text;
}

}  // namespace

TEST_CASE("What the control groups of version 2 count of memory") {
  const Tree tree("0::/pod/box\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "sys/fs/cgroup");
  tree.write("/pod", "memory.max", "2048\n");
  tree.write("/pod", "memory.events", "oom 9\noom_kill 8\n");
  tree.write("/pod", "memory.events.local", "oom 1\noom_kill 1\n");
  tree.write("/pod/box", "memory.max", "max\n");
  tree.write("/pod/box", "memory.events", "oom 5\noom_kill 3\n");
  tree.write("/pod/box", "memory.events.local", "oom 5\noom_kill 1\n");
  tree.write("/pod/box", "memory.peak", "777\n");
  tree.write("/pod/box/step", "memory.max", "1024\n");
  tree.write("/pod/box/step", "memory.events.local", "oom 2\noom_kill 2\n");
  const MemorySnapshot snapshot = tree.read();
  // The ends of processes in groups below are in the number of the group above already.
  CHECK(shown(snapshot) == "3,1 below /pod/box/step:2/1024/0 /pod/box:5/0/777 /pod:1/2048/0 /:0/0/0");
  CHECK(snapshot.host_kills == 40);
  CHECK(snapshot.counts_host_kills);
}

TEST_CASE("The highest group of version 2 counts nothing, so the host's number stands for it") {
  const Tree tree("0::/\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "sys/fs/cgroup");
  tree.write("/other.slice", "memory.events", "oom 5\noom_kill 3\n");
  CHECK(shown(tree.read()) == "? /:0/0/0");
  CHECK(tree.read().host_kills == 40);
}

TEST_CASE("The host's number tells whether there is anything to look for") {
  const Tree tree("0::/\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "sys/fs/cgroup");
  const MemorySnapshot before = tree.read();
  CHECK_FALSE(tree.may_have_killed_since(before));
  tree.write_host("nr_free_pages 10\noom_kill 41\n");
  CHECK(tree.may_have_killed_since(before));
  tree.write_host("nr_free_pages 10\n");
  CHECK(tree.may_have_killed_since(before));
  CHECK(tree.may_have_killed_since(tree.read()));
}

TEST_CASE("What the control groups of version 1 count of memory") {
  const Tree tree("4:memory:/box\n", "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n", "cg/memory");
  tree.write("", "memory.failcnt", "0\n");
  tree.write("", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n");
  tree.write("/box", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  tree.write("/box", "memory.failcnt", "100\n");
  tree.write("/box", "memory.memsw.failcnt", "11\n");
  tree.write("/box", "memory.limit_in_bytes", "4096\n");
  tree.write("/box", "memory.max_usage_in_bytes", "4000\n");
  tree.write("/box/step", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  // Each group counts its own ends only.
  CHECK(shown(tree.read()) == "3,2 below /box/step:0/0/0 /box:111/4096/4000 /:0/0/0");
}

TEST_CASE("Where the kernel counts nothing, nothing is known") {
  const Tree tree("", "", "cg");
  CHECK(shown(tree.read()) == "?");
}
