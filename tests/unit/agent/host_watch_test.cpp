// SPDX-License-Identifier: Apache-2.0
#include "agent/host_watch.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/run_until.hpp"
#include "tests/support/skip.hpp"

#include <boost/asio/io_context.hpp>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace muster;
using namespace muster::agent;
using namespace std::chrono_literals;

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// Exit codes of the process that mounts.
constexpr int kAllWell = 0;
constexpr int kMayNotMount = 77;

/// In a process of its own: fills a small file system and looks at it. Returns an exit code.
int look_at_full_file_system(const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=256k") != 0)
    return kMayNotMount;
  {
    std::ofstream file(folder + "/file");
    for (int i = 0; i < 64; ++i) file << std::string(4096, 'x') << std::flush;
  }
  // Two folders of one file system are one cause, and a link to it is followed.
  std::filesystem::create_directory_symlink(folder, folder + "-link");
  const auto full = full_disks({folder, folder + "/below", folder + "-link", "/proc", "/nowhere"});
  std::filesystem::remove(folder + "-link");
  if (full.size() != 1) return 2;
  if (full[0].text != "the file system " + folder + " is full") return 3;
  return full[0].kind == HostCauseKind::full_disk ? kAllWell : 4;
}

}  // namespace

TEST_CASE("A CPU quota is read from either version, with the count of its control group") {
  const test::Folder folder;
  const std::filesystem::path root = folder.path();
  write(root / "v2/cpu.max", "150000 100000\n");
  write(root / "v2/cpu.stat", "usage_usec 7\nnr_periods 90\nnr_throttled 41\nthrottled_usec 12\n");
  write(root / "none/cpu.max", "max 100000\n");
  write(root / "none/cpu.stat", "nr_throttled 3\n");
  write(root / "v1/cpu.cfs_quota_us", "50000\n");
  write(root / "v1/cpu.cfs_period_us", "100000\n");
  write(root / "v1/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 5\n");
  write(root / "unlimited/cpu.cfs_quota_us", "-1\n");
  write(root / "unlimited/cpu.cfs_period_us", "100000\n");
  const auto group = [&root](const char* name, bool unified) {
    return Cgroup{std::string("/") + name, root / name, unified};
  };
  const auto counts = read_quota_counts({group("v2", true), group("none", true), group("v1", false),
                                         group("unlimited", false), group("nowhere", true)});
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].group == "/v2");
  CHECK(counts[0].quota_us == 150'000);
  CHECK(counts[0].period_us == 100'000);
  CHECK(counts[0].throttled_periods == 41);
  CHECK(counts[1].group == "/v1");
  CHECK(counts[1].quota_us == 50'000);
  CHECK(counts[1].throttled_periods == 4);
}

TEST_CASE("A file system without room is found") {
  const test::Folder folder;
  const std::string path = std::filesystem::canonical(folder.path());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(look_at_full_file_system(path));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMayNotMount) return test::skip("a file system cannot be mounted here");
  CHECK(WEXITSTATUS(status) == kAllWell);
}

TEST_CASE("The watch asks for workers and suspicion when it looks, and says nothing where nothing is wrong") {
  boost::asio::io_context context;
  int asked = 0;
  int changed = 0;
  HostWatch::Events events;
  events.workers = [] { return std::vector<pid_t>{::getpid()}; };
  events.suspects = [&asked] { return ++asked > 0; };
  events.changed = [&changed] { ++changed; };
  HostWatch watch(context.get_executor(), events);
  watch.start(5ms, {"/"}, std::nullopt);
  test::run_until(context, [&asked] { return asked >= 3; });
  CHECK(changed == (watch.causes().empty() ? 0 : 1));
}
