// SPDX-License-Identifier: Apache-2.0
#include "agent/core/host_causes.hpp"

#include "catch.hpp"

#include <map>
#include <set>

namespace host_causes_test {

using namespace muster::agent;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGiB = 1024 * kMiB;

using When = std::chrono::steady_clock::time_point;

std::string mount(const std::string& point, const std::string& type) {
  return "36 1 8:1 / " + point + " rw,relatime shared:1 - " + type + " source rw\n";
}

const MountTable kMounts(mount("/", "ext4") + mount("/dev/shm", "tmpfs") + mount("/home", "nfs4") +
                         mount("/mnt/fu\\040se", "fuse.sshfs") + mount("/home/u/scratch", "xfs") +
                         mount("/data", "nfs") + mount("/data", "ext4") + "broken line\n");

/// The links of a made-up machine, and which paths were looked at.
struct Links {
  std::map<std::string, std::string> links;
  std::set<std::string> asked{};

  std::optional<std::string> resolve(const std::string& path) {
    return local_path(path, kMounts, [this](const std::string& one) -> std::optional<std::string> {
      asked.insert(one);
      const auto found = links.find(one);
      return found == links.end() ? std::nullopt : std::optional(found->second);
    });
  }
};

std::string text_of(const std::optional<HostCause>& cause) {
  return cause ? full_text(*cause) : "nothing";
}

}  // namespace

TEST_CASE("Only file systems of this machine are known to answer") {
  const auto local = [](const char* path) { return kMounts.local_mount_of(path).value_or("not local"); };
  CHECK(local("/") == "/");
  CHECK(local("/tmp/x") == "/");
  CHECK(local("/dev/shm") == "/dev/shm");
  CHECK(local("/dev/shmall") == "/");
  CHECK(local("/home") == "not local");
  CHECK(local("/home/u/x") == "not local");
  CHECK(local("/mnt/fu se/x") == "not local");
  CHECK(local("/home/u/scratch/x") == "/home/u/scratch");
  CHECK(local("/data/x") == "/data");  // the later mount lies over the earlier one
  const MountTable covered(mount("/", "ext4") + mount("/a/b", "xfs") + mount("/a", "nfs4"));
  CHECK_FALSE(covered.local_mount_of("/a/b/c"));
  CHECK_FALSE(MountTable("").local_mount_of("/"));
}

TEST_CASE("A path is followed only as far as each part of it lies on this machine") {
  Links links{{{"/scratch", "/home/u/scratch"},
               {"/tmp/link", "../var/tmp"},
               {"/tmp/shm", "/dev/shm/x/"},
               {"/tmp/loop", "loop"}}};
  CHECK(links.resolve("/var/log/") == "/var/log");
  CHECK(links.resolve("/") == "/");
  CHECK(links.resolve("/tmp/./a//b/../c") == "/tmp/a/c");
  CHECK(links.resolve("/tmp/link/a") == "/var/tmp/a");
  CHECK(links.resolve("/tmp/shm/y") == "/dev/shm/x/y");
  CHECK_FALSE(links.resolve("/tmp/loop"));
  CHECK_FALSE(links.resolve("relative"));
  CHECK_FALSE(links.resolve(""));
  links.asked.clear();
  // The way to a local file system leads over a server.
  CHECK_FALSE(links.resolve("/scratch/x"));
  CHECK_FALSE(links.resolve("/home/u/scratch"));
  CHECK(links.asked == std::set<std::string>{"/scratch"});
}

TEST_CASE("A file system is full with next to nothing left, or without inodes") {
  CHECK(text_of(full_disk("/dev/shm", {64 * kMiB, 64 * kKiB, 0, 0})) ==
        "the file system /dev/shm is full (64 KiB of 64 MiB are free)");
  CHECK(text_of(full_disk("/", {10 * kGiB, 10 * kMiB, 100, 50})) ==
        "the file system / is full (10 MiB of 10 GiB are free)");
  CHECK(text_of(full_disk("/", {10 * kGiB, 5 * kGiB, 65'536, 0})) ==
        "the file system / takes no more files (all its 65536 inodes are used)");
  CHECK_FALSE(full_disk("/", {10 * kGiB, 11 * kMiB, 100, 50}));
  CHECK_FALSE(full_disk("/", {1000 * 1024 * kGiB, 64 * kMiB, 0, 0}));  // less than a thousandth, and enough
  CHECK_FALSE(full_disk("/proc", {0, 0, 0, 0}));
}

TEST_CASE("A control group that is held up in more than a fifth of the time is named with its quota") {
  ThrottleMeter meter;
  const When begin(1000s);
  const auto counts = [](std::uint64_t own, std::uint64_t above) {
    return std::vector<QuotaCounts>{{"/job", 50'000, 100'000, own}, {"/", 250'000, 100'000, above}};
  };
  CHECK_FALSE(meter.add(counts(500, 100), begin));
  CHECK_FALSE(meter.add(counts(520, 100), begin + 10s));
  const auto cause = meter.add(counts(561, 121), begin + 20s);
  REQUIRE(cause);
  CHECK(cause->kind == HostCauseKind::throttled);
  CHECK(cause->text == "processes are throttled by the control group /job to 0.5 CPUs");
  CHECK(cause->detail == "in 41 % of the time");
  CHECK(text_of(meter.add(counts(561, 221), begin + 30s)) ==
        "processes are throttled by the control group / to 2.5 CPUs (in 100 % of the time)");
  CHECK_FALSE(meter.add({}, begin + 40s));
  CHECK_FALSE(meter.add(counts(900, 900), begin + 50s));
  CHECK_FALSE(meter.add(counts(0, 0), begin + 60s));
  CHECK_FALSE(meter.add(counts(100, 100), begin + 60s));
}

TEST_CASE("An error of a GPU is told in words, and for good if the GPU is lost") {
  const When at(1000s);
  CHECK(text_of(gpu_error({3, "0000:3b:00.0", 79, at}, at + 3600s)) ==
        "GPU 3 (0000:3b:00.0) had Xid 79: it has fallen off the bus (3600 s ago)");
  CHECK(text_of(gpu_error({0, "", 31, at}, at + 12s)) ==
        "GPU 0 had Xid 31: an access to memory that is not there, usually of the program (12 s ago)");
  CHECK(text_of(gpu_error({0, "", 999, at}, at)) == "GPU 0 had Xid 999 (0 s ago)");
  CHECK_FALSE(gpu_error({0, "", 31, at}, at + 3min));
}

TEST_CASE("Several causes are one text without what changes") {
  CHECK(causes_text({}).empty());
  CHECK(causes_text({{HostCauseKind::full_disk, "the file system / is full", "x"},
                     {HostCauseKind::gpu_error, "GPU 0 had Xid 79", "1 s ago"}}) ==
        "the file system / is full; GPU 0 had Xid 79");
}

}  // namespace host_causes_test
