// SPDX-License-Identifier: Apache-2.0
// What it costs to look at eight workers every two seconds.
#include "agent/process/evidence.hpp"
#include "catch.hpp"
#include "promise.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <list>
#include <thread>
#include <vector>

using namespace muster::agent;

namespace {

constexpr int kWorkers = 8;
/// Threads of each worker, and processes that it has started, as a training with a data loader has them.
constexpr int kThreads = 16;
constexpr int kHelpers = 2;

double own_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// In a child: waits until it is killed, as a worker in a call does.
[[noreturn]] void be_a_worker(int ready) {
  for (int i = 0; i < kHelpers; ++i)
    if (::fork() == 0)
      for (;;) ::pause();
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([] {
      for (;;) ::pause();
    });
  if (::write(ready, "x", 1) != 1) ::_exit(1);
  for (;;) ::pause();
}

}  // namespace

TEST_CASE("Eight workers cost at most a thousandth of a core") {
  int ready[2] = {};
  REQUIRE(::pipe(ready) == 0);
  std::vector<pid_t> workers;
  for (int i = 0; i < kWorkers; ++i) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::setpgid(0, 0);
      be_a_worker(ready[1]);
    }
    workers.push_back(pid);
  }
  for (int i = 0; i < kWorkers; ++i) {
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
  }
  std::list<WorkerEvidence> evidence;
  for (const pid_t pid : workers) evidence.emplace_back(pid);
  const auto now = std::chrono::steady_clock::now();
  std::vector<double> took;
  for (int attempt = 0; attempt < 5; ++attempt) {
    constexpr int kRounds = 40;
    const double before = own_cpu_seconds();
    for (int round = 0; round < kRounds; ++round)
      for (WorkerEvidence& one : evidence) REQUIRE(one.read(now));
    took.push_back((own_cpu_seconds() - before) / kRounds);
  }
  for (const pid_t pid : workers) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  // Of two seconds, a thousandth.
  CHECK(muster::test::late("sampling of 8 workers each 2 s", 0.002, took) == "");
}
