// SPDX-License-Identifier: Apache-2.0
// What becomes of a look at machine code when libdw cannot bear what it reads.
#include "agent/stacks/native_child.hpp"

#include "agent/process/process_tree.hpp"
#include "agent/stacks/libdw.hpp"
#include "agent/stacks/mapped_file.hpp"
#include "agent/stacks/native_reader.hpp"
#include "agent/stacks/thread_stop.hpp"
#include "catch.hpp"
#include "rendezvous/base/own_child.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "tests/integration/stacks/native_target.hpp"
#include "tests/integration/stacks/program.hpp"
#include "tests/support/folder.hpp"

#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

using namespace muster::agent;
using muster::agent::test::ForkedChild;
using muster::agent::test::frame_with;
using muster::agent::test::no_libdw;
using namespace std::chrono_literals;

namespace {

/// A thread of this number is one that the fake libdw below cannot bear.
constexpr pid_t kBad = 1;

std::string text_of(pid_t pid, const char* name) {
  return muster::read_file("/proc/" + std::to_string(pid) + "/" + name).value_or("");
}

ThreadCopy copy_of(pid_t pid) {
  ThreadCopy copy;
  copy.tid = pid;
  constexpr std::size_t kBytes = 1024;
  stop_thread(pid, 5000ms, [&](const ThreadRegisters& registers) {
    copy.registers = registers;
    copy.stack_begin = registers.stack_pointer;
    copy.stack.resize(kBytes);
    ProcessMemory memory(pid, StackDeadline::clock::now() + 5s);
    if (!memory.read(copy.stack_begin, copy.stack.data(), kBytes)) copy.stack.clear();
  });
  return copy;
}

/// Reads the same thread twice, once under the number that the fake does not bear.
NativeStacks read_with(const Libdw& libdw, pid_t pid, std::chrono::milliseconds within = 20s) {
  const ThreadCopy good = copy_of(pid);
  ThreadCopy bad = good;
  bad.tid = kBad;
  NativeStacks last;
  unwind_apart(libdw, {pid, text_of(pid, "maps")}, {bad, good}, StackDeadline::clock::now() + within, {},
               [&last](const NativeStacks& stacks) { last = stacks; });
  CHECK_FALSE(muster::has_own_child());
  return last;
}

using Unwind = decltype(Libdw::dwfl_getthread_frames);

const Libdw& real() {
  std::string error;
  return *load_libdw(error);
}

/// The real libdw, but for what happens with a bad thread.
template <int (*Instead)()>
Libdw libdw_that() {
  Libdw libdw = real();
  libdw.dwfl_getthread_frames = [](Dwfl* dwfl, pid_t tid, int (*frame)(DwflFrame*, void*), void* argument) {
    return tid == kBad ? Instead() : real().dwfl_getthread_frames(dwfl, tid, frame, argument);
  };
  return libdw;
}

int crashes() {
  ::signal(SIGSEGV, SIG_DFL);  // Catch2 has taken it
  return ::raise(SIGSEGV);
}

int leaves() {
  std::exit(0);
}

int hangs() {
  for (;;) ::pause();
}

/// Asks for memory until there is none, and crashes if there is no end of it.
[[maybe_unused]] int takes_memory() {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  for (std::size_t bytes = 0; bytes < 4 * kNativeChildBytesMax; bytes += kPiece)
    if (std::malloc(kPiece) == nullptr) return -1;
  return crashes();
}

void check_good(const NativeThread& thread) {
  INFO(thread.error);
  CHECK(frame_with(thread, "sleeps_for_ever") != nullptr);
}

void wait_for_sleep(pid_t pid) {
  test::ask_until([&] { return muster::read_process_stat(pid).value_or(muster::ProcessStat{}).state; },
                  [](char state) { return state == 'S'; });
}

/// Takes from this process, and from programs that it starts, what lets it open removed files of others.
bool drop_capabilities() {
  constexpr int kWanted[] = {CAP_SYS_ADMIN, 40};  // 40: CAP_CHECKPOINT_RESTORE
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) != 0) return false;
  for (const int capability : kWanted) {
    ::prctl(PR_CAPBSET_DROP, capability);  // an ordinary user has nothing to drop
    const auto word = static_cast<std::size_t>(capability / 32);
    const std::uint32_t others = ~(std::uint32_t{1} << (capability % 32));
    data[word].effective &= others;
    data[word].permitted &= others;
    data[word].inheritable &= others;
  }
  return ::syscall(SYS_capset, &header, data) == 0;
}

}  // namespace

TEST_CASE("A file that ends the reader of machine code is named, and the other threads are read") {
  if (no_libdw()) return;
  const ForkedChild child([] { test::sleeps_for_ever(); });
  wait_for_sleep(child.pid());
  const NativeStacks stacks = read_with(libdw_that<crashes>(), child.pid());
  REQUIRE(stacks.threads.size() == 2);
  CHECK(stacks.threads[0].error.starts_with(
      "the process that read machine code was ended by SIGSEGV while it read /"));
  check_good(stacks.threads[1]);
}

TEST_CASE("A reader of machine code that ends with the lines leaves the calls") {
  if (no_libdw()) return;
  const ForkedChild child([] { test::sleeps_for_ever(); });
  wait_for_sleep(child.pid());
  Libdw libdw = real();
  libdw.dwfl_module_getsrc = [](DwflModule*, std::uint64_t) -> DwflLine* {
    crashes();
    return nullptr;
  };
  const NativeStacks stacks = read_with(libdw, child.pid());
  REQUIRE(stacks.threads.size() == 2);
  check_good(stacks.threads[0]);
  check_good(stacks.threads[1]);
  CHECK(stacks.error.starts_with(
      "source lines are missing: the process that read machine code was ended by SIGSEGV while it read /"));
}

TEST_CASE("A reader of machine code that gets no memory says so, and takes a bounded part of it") {
  if (no_libdw()) return;
  const ForkedChild child([] { test::sleeps_for_ever(); });
  wait_for_sleep(child.pid());
  NativeStacks stacks = read_with(libdw_that<leaves>(), child.pid());
  REQUIRE(stacks.threads.size() == 2);
  CHECK(stacks.threads[0].error.find("got no more memory (1024 MiB at most)") != std::string::npos);
  check_good(stacks.threads[1]);
#ifndef MUSTER_SANITIZED  // the sanitizer's own allocator ends the process
  stacks = read_with(libdw_that<takes_memory>(), child.pid());
  REQUIRE(stacks.threads.size() == 2);
  CHECK(stacks.threads[0].error == "its stack cannot be unwound");
#endif
}

TEST_CASE("A reader of machine code that hangs is killed in time") {
  if (no_libdw()) return;
  const ForkedChild child([] { test::sleeps_for_ever(); });
  wait_for_sleep(child.pid());
  const NativeStacks stacks = read_with(libdw_that<hangs>(), child.pid(), 200ms);
  CHECK(stacks.threads.empty());
  CHECK(stacks.error == "the time for reading it was over");
}

TEST_CASE("A reader that many threads end is not started for each of them") {
  if (no_libdw()) return;
  const ForkedChild child([] { test::sleeps_for_ever(); });
  wait_for_sleep(child.pid());
  ThreadCopy bad = copy_of(child.pid());
  bad.tid = kBad;
  const std::vector<ThreadCopy> copies(3 * kNativeChildrenMax, bad);
  NativeStacks stacks;
  unwind_apart(libdw_that<crashes>(), {child.pid(), text_of(child.pid(), "maps")}, copies,
               StackDeadline::clock::now() + 20s, {}, [&](const NativeStacks& now) { stacks = now; });
  CHECK(stacks.threads.empty());  // all for one reason, which is told once
  CHECK(stacks.error.find("SIGSEGV") != std::string::npos);
}

TEST_CASE("Who reaps and ends all children leaves a child that works for us to who waits for it") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  muster::UniqueFd read_end(ends[0]);
  const muster::UniqueFd write_end(ends[1]);
  muster::OwnChild child(read_end.get(), [] {
    char byte = 0;
    return ::read(muster::OwnChild::kKept, &byte, 1) == 1 ? 7 : 8;
  });
  int taken = 0;
  const auto reap = [&taken] {
    return reap_orphans([](pid_t) { return false; }, [&](pid_t, bool) { ++taken; });
  };
  CHECK_FALSE(reap().children_left);
  CHECK(descendants_of(::getpid()).empty());
  const ForkedChild other([] { test::sleeps_for_ever(); });
  CHECK(reap().children_left);
  REQUIRE(::write(write_end.get(), "x", 1) == 1);
  siginfo_t info{};
  REQUIRE(::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0);
  const Orphans orphans = reap();
  CHECK(orphans.children_left);
  CHECK_FALSE(orphans.met_kept);
  CHECK(taken == 0);
  const int status = child.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("A program that was removed is read by who may not open other removed files") {
  if (no_libdw()) return;
  const muster::test::Folder folder;
  const std::string path = folder.path() + "/program";
  std::filesystem::copy_file("/proc/self/exe", path);
  const ForkedChild user([&] {
    if (!drop_capabilities()) ::_exit(2);
    const test::Program program({path, "[.sleeps]"});
    std::filesystem::remove(path);
    NativeStacks stacks;
    bool named = false;
    // It is ready a moment before it sleeps.
    const auto deadline = StackDeadline::clock::now() + 20s;
    while (!named && StackDeadline::clock::now() < deadline) {
      read_native_stacks(program.pid(), muster::start_time_of(program.pid()), deadline,
                         [&](const NativeStacks& now) { stacks = now; });
      named = !stacks.threads.empty() && frame_with(stacks.threads[0], "sleeps_for_ever") != nullptr;
    }
    if (!named) std::fprintf(stderr, "%s\n", stacks.error.c_str());
    ::kill(program.pid(), SIGKILL);
    ::_exit(named ? 0 : 1);
  });
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(user.pid()), &info, WEXITED | WNOWAIT) == 0);
  CHECK(info.si_status == 0);
}

TEST_CASE("Links in a container lead to places in it") {
  const muster::test::Folder folder;
  std::filesystem::create_directories(folder.path() + "/top/inner");
  std::filesystem::create_directory_symlink("/inner", folder.path() + "/top/link");
  REQUIRE(::close(::creat((folder.path() + "/top/inner/file").c_str(), 0600)) == 0);
  CHECK(find_below(folder.path() + "/top", "/link/file"));
  std::filesystem::create_directory_symlink(folder.path(), folder.path() + "/top/out");
  CHECK_FALSE(find_below(folder.path() + "/top", "/out/top/inner/file"));
}

// The program of the test about removed files.
TEST_CASE("Sleeps until it is killed", "[.sleeps]") {
  REQUIRE(::write(STDOUT_FILENO, "ready\n", 6) == 6);
  test::sleeps_for_ever();
}
