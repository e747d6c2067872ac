// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/allowance.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <algorithm>
#include <filesystem>

using namespace muster;

namespace {

/// A root folder in which this process is in the group /pod/box.
class Tree {
 public:
  explicit Tree(const std::string& mounts) {
    write("proc/self", "cgroup", "4:memory:/pod/box\n1:cpu,cpuacct:/pod/box\n0::/pod/box\n");
    write("proc/self", "mountinfo", mounts);
    write("proc", "meminfo", "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:   5000 kB\n");
  }

  void write(const std::string& folder, const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(root_ / folder);
    root_.write(folder + "/" + file, text);
  }

  Allowance read() const { return read_allowance(root_.path()); }

  std::uint64_t free() const { return free_memory(root_.path()); }

 private:
  test::Folder root_;
};

const std::string kVersion2 = "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n";
const std::string kVersion1 =
    "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n32 31 0:29 / /cg/cpu rw - cgroup cgroup "
    "rw,cpu,cpuacct\n";

int own_processors() {
  const std::string mask = processor_mask();
  return static_cast<int>(std::count(mask.begin(), mask.end(), '1'));
}

}  // namespace

TEST_CASE("Without limits a process has its affinity mask and the memory of the machine") {
  const Allowance all = Tree(kVersion2).read();
  CHECK(all.affinity == own_processors());
  CHECK(all.processors == all.affinity);
  CHECK(all.quota == 0);
  CHECK_FALSE(all.quota_decides());
  CHECK(all.memory == 8000U * 1024);
  CHECK(all.memory_group.empty());
  CHECK(Tree("").read().memory == 8000U * 1024);
}

TEST_CASE("The least quota of a group or one above it holds, rounded up") {
  const Tree tree(kVersion2);
  tree.write("cg/pod", "cpu.max", "30000 100000\n");
  tree.write("cg/pod/box", "cpu.max", "max 100000\n");
  CHECK(tree.read().processors == 1);
  CHECK(tree.read().quota == Approx(0.3));
  CHECK(tree.read().quota_group == "/pod");
  CHECK(tree.read().quota_decides() == (own_processors() > 1));
  tree.write("cg/pod/box", "cpu.max", "20000 100000\n");
  CHECK(tree.read().quota_group == "/pod/box");
  tree.write("cg/pod", "cpu.max", "max 100000\n");
  tree.write("cg/pod/box", "cpu.max", "150000 100000\n");
  CHECK(tree.read().processors == std::min(2, own_processors()));
  tree.write("cg/pod/box", "cpu.max", "100000000 100000\n");
  CHECK(tree.read().processors == own_processors());
}

TEST_CASE("Quotas of version 1") {
  const Tree tree(kVersion1);
  tree.write("cg/cpu/pod", "cpu.cfs_quota_us", "-1\n");
  tree.write("cg/cpu/pod", "cpu.cfs_period_us", "100000\n");
  CHECK(tree.read().quota == 0);
  tree.write("cg/cpu/pod/box", "cpu.cfs_quota_us", "25000\n");
  tree.write("cg/cpu/pod/box", "cpu.cfs_period_us", "50000\n");
  CHECK(tree.read().quota == Approx(0.5));
  CHECK(tree.read().processors == 1);
}

TEST_CASE("The least limit of memory holds, and cached files count as free") {
  const Tree tree(kVersion2);
  tree.write("cg/pod", "memory.max", "2000000\n");
  tree.write("cg/pod", "memory.current", "1900000\n");
  tree.write("cg/pod", "memory.stat", "anon 5\ninactive_file 400000\n");
  tree.write("cg/pod/box", "memory.max", "max\n");
  CHECK(tree.read().memory == 2000000U);
  CHECK(tree.read().memory_group == "/pod");
  CHECK(tree.free() == 500000U);
  const Tree older(kVersion1);
  older.write("cg/memory/pod/box", "memory.limit_in_bytes", "3000000\n");
  older.write("cg/memory/pod/box", "memory.usage_in_bytes", "3000000\n");
  CHECK(older.read().memory == 3000000U);
  CHECK(older.free() == 0U);
  CHECK(Tree("").free() == 5000U * 1024);
}
