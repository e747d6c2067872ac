// SPDX-License-Identifier: Apache-2.0
// Processes that end, and disks that are full, in the middle of a write.
#include "catch.hpp"
#include "tests/support/pipe.hpp"
#include "tests/support/skip.hpp"
#include "tests/unit/worker_sdk/nn/checkpoint/folder.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

using namespace muster::checkpoint;
using namespace muster::test;

namespace {

constexpr std::int64_t kElements = 400'000;  // two pieces for each file

/// Runs `body` in a child and returns the status that it ended with.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 99;
    try {
      code = body();
    } catch (...) {
    }
    ::_exit(code);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

/// Writes checkpoints until somebody kills it, telling each step that is safe.
int write_for_ever(const std::string& folder, std::int64_t step, int safe,
                   const std::function<void(std::string_view)>& on_point) {
  CheckpointStore store({folder, 2, on_point});
  std::vector<Skipped> skipped;
  if (const auto newest = newest_complete(folder, skipped)) store.continue_from(*newest);
  for (;;) {
    ++step;
    const SampleState sample(step, kElements);
    store.write(sample.state);
    if (::write(safe, &step, sizeof step) != sizeof step) return 1;
  }
}

/// The newest complete checkpoint, after a check that there is no other kind.
std::int64_t step_of_newest(const std::string& folder) {
  std::vector<Skipped> skipped;
  const auto found = newest_complete(folder, skipped);
  for (const Skipped& one : skipped) FAIL_CHECK(one.path << ": " << one.why);
  if (!found) return 0;
  CHECK(is_whole(*found, kElements));
  return found->manifest.scalars.integer("step");
}

std::int64_t last_of(int pipe, std::int64_t last) {
  std::int64_t step = 0;
  while (::read(pipe, &step, sizeof step) == sizeof step) last = step;
  return last;
}

}  // namespace

TEST_CASE("A kill at any point of a write leaves a complete checkpoint: 25 points in turn") {
  const Folder folder;
  std::int64_t safe = 0;
  for (int kill_at = 1; kill_at <= 25; ++kill_at) {
    muster::test::Pipe told_steps;
    const int status = in_child([&] {
      int points = 0;
      return write_for_ever(folder.path(), safe, told_steps.write.get(), [&](std::string_view) {
        if (++points == kill_at) ::raise(SIGKILL);
      });
    });
    told_steps.write.reset();
    INFO("point " << kill_at);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    const std::int64_t told = last_of(told_steps.read.get(), safe);
    safe = step_of_newest(folder.path());
    CHECK(safe >= told);
    CHECK(safe <= told + 1);
  }
  CHECK(safe >= 10);
}

namespace {

/// In a child: one checkpoint that fits, one that does not. 0 if all is as it should be.
int fill_disk(const std::string& folder, const std::function<void()>& shrink, const std::string& reason) {
  CheckpointStore store({folder, 3, {}});
  const SampleState small(1, 1000);
  store.write(small.state);
  shrink();
  const SampleState large(2, kElements);
  const std::string text = error_of([&] { store.write(large.state); });
  if (text.find(reason) == std::string::npos || text.find("the last one is") == std::string::npos) return 2;
  std::vector<Skipped> skipped;
  const auto found = newest_complete(folder, skipped);
  if (!found || !skipped.empty() || !is_whole(*found, 1000)) return 3;
  if (std::distance(std::filesystem::directory_iterator(folder), {}) != 2) return 4;  // and the lock
  const SampleState next(3, 1000);
  store.write(next.state);  // and it goes on
  return 0;
}

/// A disk of 1 MiB at `path` that only this process sees. False where that is not allowed.
bool mount_small_disk(const std::string& path) {
  const std::string user = "0 " + std::to_string(::geteuid()) + " 1";
  const std::string group = "0 " + std::to_string(::getegid()) + " 1";
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", user);
  write_file("/proc/self/gid_map", group);
  return ::mount("muster-test", path.c_str(), "tmpfs", 0, "size=1m") == 0;
}

}  // namespace

TEST_CASE("A file beyond its limit is a clear error, and the last checkpoint stays") {
  const Folder folder;
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    return fill_disk(
        folder.path(),
        [] {
          const rlimit limit{500'000, 500'000};
          ::setrlimit(RLIMIT_FSIZE, &limit);
        },
        "File too large; raise the limit of file sizes");
  });
  CHECK(status == 0);
}

TEST_CASE("A full disk is a clear error, and the last checkpoint stays") {
  const Folder folder;
  const int status = in_child([&] {
    if (!mount_small_disk(folder.path())) return 77;
    return fill_disk(
        folder.path(), [] {}, "No space left on device; free some space there");
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return skip("no mount in a namespace here");
  CHECK(status == 0);
}
