// SPDX-License-Identifier: Apache-2.0
// Stacks of the machine code of real processes, which go on.
#include "agent/stacks/native_reader.hpp"

#include "agent/process/evidence.hpp"
#include "agent/process/process_tree.hpp"
#include "agent/stacks/libdw.hpp"
#include "agent/stacks/native_look.hpp"
#include "agent/stacks/thread_stop.hpp"
#include "catch.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "tests/integration/stacks/native_target.hpp"
#include "tests/integration/stacks/program.hpp"
#include "tests/support/skip.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

using namespace muster::agent;
using muster::agent::test::ask_until;
using muster::agent::test::ForkedChild;
using muster::agent::test::frame_with;
using muster::agent::test::no_libdw;
using namespace std::chrono_literals;

namespace muster::agent::test {

void computes_for_ever(std::atomic<unsigned>& steps);

// With names that a stack shows, and not in an anonymous namespace, whose names the linker may leave out.
[[gnu::noinline]] void computes_for_ever(std::atomic<unsigned>& steps) {
  for (;;) ++steps;
}

[[gnu::noinline]] void sleeps_for_ever() {
  for (;;) ::pause();
}

#if defined(__x86_64__)
/// Stands at its return, with its frame taken down; by its unwind table, which is as clang writes it, the
/// caller's rbp is below the stack pointer.
asm(R"(
.text
.type returns_never, @function
returns_never:
  .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  pop %rbp
  .cfi_def_cfa %rsp, 8
1:
  jmp 1b
  .cfi_endproc
.size returns_never, . - returns_never
.globl calls_what_returns_never
.type calls_what_returns_never, @function
calls_what_returns_never:
  .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  call returns_never
  .cfi_endproc
.size calls_what_returns_never, . - calls_what_returns_never
.globl loops_on_stack
.type loops_on_stack, @function
loops_on_stack:
  .cfi_startproc
  .cfi_undefined %rip
  mov %rdi, %rsp
1:
  jmp 1b
  .cfi_endproc
.size loops_on_stack, . - loops_on_stack
)");
extern "C" void calls_what_returns_never();
/// Loops for ever with the stack pointer that it is given.
extern "C" void loops_on_stack(std::byte* pointer);
#endif

}  // namespace muster::agent::test

namespace {

NativeStacks read(pid_t pid, std::uint64_t started) {
  NativeStacks last;
  read_native_stacks(pid, started, StackDeadline::clock::now() + 20s,
                     [&last](const NativeStacks& stacks) { last = stacks; });
  return last;
}

NativeStacks read(pid_t pid) {
  return read(pid, muster::start_time_of(pid));
}

bool has(const NativeStacks& stacks, std::string_view function) {
  return std::any_of(stacks.threads.begin(), stacks.threads.end(),
                     [function](const auto& thread) { return frame_with(thread, function) != nullptr; });
}

/// A child that was forked just now may be on its way there, and asleep before.
void wait_for_sleeper(pid_t pid) {
  CHECK(has(ask_until([&] { return read(pid); },
                      [](const NativeStacks& now) { return has(now, "sleeps_for_ever"); }),
            "sleeps_for_ever"));
}

char state_of(pid_t pid) {
  return muster::read_process_stat(pid).value_or(muster::ProcessStat{}).state;
}

void two_threads() {
  std::thread([] {
    ::pthread_setname_np(::pthread_self(), "sleeper\033[1m");
    test::sleeps_for_ever();
  }).detach();
  std::atomic<unsigned> steps{0};
  test::computes_for_ever(steps);
}

}  // namespace

TEST_CASE("A stop of ours is no evidence of a debugger") {
  if (!can_read_registers()) return;
  const ForkedChild child([] { test::sleeps_for_ever(); });
  WorkerEvidence evidence(child.pid());
  const auto now = std::chrono::steady_clock::now();
  char while_held = 0;
  const ThreadStop stop = stop_thread(child.pid(), 20'000ms, [&](const ThreadRegisters&) {
    CHECK(state_of(child.pid()) == 't');
    if (const auto sample = evidence.read(now)) while_held = sample->state;
  });
  CHECK(stop.read);
  CHECK(while_held == 'S');
}

TEST_CASE("A thread in a loop and a sleeping one are named with their functions, and go on") {
  if (no_libdw()) return;
  const ForkedChild child(two_threads);
  const NativeStacks stacks = ask_until(
      [&] { return read(child.pid()); },
      [](const NativeStacks& now) { return has(now, "computes_for_ever") && has(now, "sleeps_for_ever"); });
  INFO(stacks.error);
  REQUIRE(stacks.threads.size() == 2);
  CHECK(stacks.threads[0].tid == child.pid());
  const NativeFrame* const computes = frame_with(stacks.threads[0], "computes_for_ever");
  REQUIRE(computes != nullptr);
  CHECK(computes->function.starts_with("muster::agent::test::computes_for_ever"));
  CHECK_FALSE(computes->module.empty());
  CHECK_FALSE(computes->file.empty());
  CHECK(computes->line > 0);
  CHECK(frame_with(stacks.threads[0], "main") != nullptr);
  CHECK(stacks.threads[1].name == "sleeper\\x1b[1m");
  CHECK(frame_with(stacks.threads[1], "sleeps_for_ever") != nullptr);
  CHECK(stacks.longest_stop_us > 0);
  WARN("longest stop of a thread: " << stacks.longest_stop_us << " us");
  CHECK(state_of(child.pid()) == 'R');
}

#if defined(__x86_64__)
TEST_CASE("A function about to return has callers") {
  if (no_libdw()) return;
  const ForkedChild child([] { test::calls_what_returns_never(); });
  const NativeStacks stacks = ask_until([&] { return read(child.pid()); },
                                        [](const NativeStacks& now) { return has(now, "returns_never"); });
  INFO(stacks.error);
  CHECK(has(stacks, "calls_what_returns_never"));
  CHECK(has(stacks, "main"));
}

TEST_CASE("A stack below which nothing can be read is read from its pointer") {
  if (no_libdw()) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages = ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(::mprotect(pages, page, PROT_NONE) == 0);
  const ForkedChild child([&] { test::loops_on_stack(static_cast<std::byte*>(pages) + page + 64); });
  ::munmap(pages, 2 * page);
  const NativeStacks stacks = ask_until([&] { return read(child.pid()); },
                                        [](const NativeStacks& now) { return has(now, "loops_on_stack"); });
  INFO(stacks.error);
  CHECK(has(stacks, "loops_on_stack"));
}
#endif

TEST_CASE("A process that was stopped stays so, and gets the signal that came meanwhile") {
  if (no_libdw()) return;
  const ForkedChild child([] { test::sleeps_for_ever(); });
  wait_for_sleeper(child.pid());
  ::kill(child.pid(), SIGSTOP);
  ask_until([&] { return state_of(child.pid()); }, [](char state) { return state == 'T'; });
  CHECK(has(read(child.pid()), "sleeps_for_ever"));
  CHECK(ask_until([&] { return state_of(child.pid()); }, [](char state) { return state == 'T'; }) == 'T');
  ::kill(child.pid(), SIGTERM);
  ::kill(child.pid(), SIGCONT);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT) == 0);
  CHECK(info.si_status == SIGTERM);
}

TEST_CASE("Waits for the ends of children take no stop for an end, and none is lost") {
  const ForkedChild child([] { test::sleeps_for_ever(); });
  bool looked = false;
  bool taken = false;
  Orphans orphans;
  const ThreadStop stop = stop_thread(child.pid(), 20'000ms, [&](const ThreadRegisters&) {
    looked = true;
    // What another test has left may end here.
    orphans = reap_orphans([](pid_t) { return false; },
                           [&](pid_t pid, bool) { taken = taken || pid == child.pid(); });
  });
  CHECK(looked);
  CHECK(stop.read);
  CHECK_FALSE(taken);
  CHECK(orphans.children_left);
  ::kill(child.pid(), SIGKILL);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT) == 0);
  CHECK(info.si_status == SIGKILL);
}

TEST_CASE("A process that ends while it is read keeps its exit code for who waits for it") {
  const ForkedChild child([] { test::sleeps_for_ever(); });
  stop_thread(child.pid(), 20'000ms, [&](const ThreadRegisters&) { ::kill(child.pid(), SIGKILL); });
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT) == 0);
  CHECK(info.si_code == CLD_KILLED);
}

TEST_CASE("A thread goes on in time, however long the reading takes") {
  const ForkedChild child([] { test::sleeps_for_ever(); });
  const ThreadStop stop = stop_thread(child.pid(), 20ms, [&](const ThreadRegisters&) {
    CHECK(ask_until([&] { return state_of(child.pid()); }, [](char state) { return state == 'S'; }) == 'S');
  });
  CHECK_FALSE(stop.read);
  CHECK(stop.stopped >= 20ms);
}

TEST_CASE("When the process that holds a thread is killed, the thread goes on") {
  const ForkedChild child([] { test::sleeps_for_ever(); });
  const ForkedChild holder(
      [&] { stop_thread(child.pid(), 60'000ms, [](const ThreadRegisters&) { test::sleeps_for_ever(); }); });
  const char held = ask_until([&] { return state_of(child.pid()); }, [](char state) { return state == 't'; });
  if (held != 't') return muster::test::skip("this kernel lets nobody hold a sibling (Yama)");
  ::kill(holder.pid(), SIGKILL);
  CHECK(ask_until([&] { return state_of(child.pid()); }, [](char state) { return state == 'S'; }) == 'S');
}

TEST_CASE("What cannot be read has a reason, and a reused number is left alone") {
  if (no_libdw()) return;
  const ForkedChild child([] { test::sleeps_for_ever(); });
  CHECK(read(child.pid(), 1).error == "it has ended");
  CHECK(read(child.pid(), 0).error == "it has ended");
  const ForkedChild other(
      [&] { stop_thread(child.pid(), 60'000ms, [](const ThreadRegisters&) { test::sleeps_for_ever(); }); });
  if (ask_until([&] { return state_of(child.pid()); }, [](char state) { return state == 't'; }) == 't')
    CHECK(read(child.pid()).error == "a debugger holds it already");
}

TEST_CASE("A look at several processes does not wait, and one is enough") {
  if (no_libdw()) return;
  const ForkedChild first([] { test::sleeps_for_ever(); });
  const ForkedChild second([] { test::sleeps_for_ever(); });
  for (const ForkedChild* child : {&first, &second}) wait_for_sleeper(child->pid());
  NativeLook look;
  CHECK(look.is_over());
  const auto deadline = StackDeadline::clock::now() + 20s;
  REQUIRE(look.begin({{first.pid(), muster::start_time_of(first.pid())},
                      {second.pid(), muster::start_time_of(second.pid())}},
                     deadline));
  ask_until([&] { return look.is_over(); }, [](bool over) { return over; });
  for (const auto& [pid, stacks] : look.found()) {
    INFO(stacks.error);
    CHECK(has(stacks, "sleeps_for_ever"));
  }
  CHECK(look.found().size() == 2);
  NativeLook late;
  REQUIRE(late.begin({{first.pid(), 1}}, StackDeadline::clock::now()));
  CHECK(late.is_over());
  CHECK(late.found().at(first.pid()).error == "there was no time for it");
}
