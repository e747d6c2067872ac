// SPDX-License-Identifier: Apache-2.0
// Ranks forked from one program: that they meet, how the first failure comes back, and that nothing stays.
#include "worker_sdk/world/spawn.hpp"

#include "catch.hpp"
#include "worker_sdk/world/world.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Numbers that all processes of a test see.
class SharedNumbers {
 public:
  SharedNumbers() {
    void* memory = ::mmap(nullptr, sizeof(*numbers_) * kCount, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    numbers_ = static_cast<std::atomic<int>*>(memory);
  }

  ~SharedNumbers() { ::munmap(numbers_, sizeof(*numbers_) * kCount); }

  SharedNumbers(const SharedNumbers&) = delete;
  SharedNumbers& operator=(const SharedNumbers&) = delete;

  std::atomic<int>& operator[](int index) const { return numbers_[index]; }

  void wait_for(int index) const {
    while (numbers_[index].load() == 0) ::usleep(500);
  }

 private:
  static constexpr std::size_t kCount = 16;
  std::atomic<int>* numbers_ = nullptr;
};

bool is_gone(int pid) {
  return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

void wait_until_gone(int pid) {
  while (!is_gone(pid)) ::usleep(500);
}

std::optional<SpawnFailure> try_ranks(const std::function<void(int)>& body, int size,
                                      const SpawnOptions& options = {}) {
  const auto rank_of = [&body](int rank, int) {
    body(rank);
    return 0;
  };
  return try_spawn(rank_of, size, options);
}

void spawn(const std::function<void(int)>& body, int size, const SpawnOptions& options = {}) {
  const auto failure = try_ranks(body, size, options);
  if (failure) throw std::runtime_error(describe(*failure, size));
}

/// Does the same with the world already joined.
void spawn(const std::function<void(World&)>& body, int size) {
  const std::function<void(int)> in_world = [&body](int) {
    auto world = World::init();
    try {
      body(*world);
      world->finalize();
    } catch (...) {
      // A rank that fails does not leave in order: its end tells the others, and this process is about to.
      static_cast<void>(world.release());
      throw;
    }
  };
  spawn(in_world, size);
}

SpawnFailure failure_of(const std::function<void(int)>& body, int size, const SpawnOptions& options = {}) {
  // Ranks inherit it; the test framework would report what is meant to happen.
  ::signal(SIGTERM, SIG_DFL);
  const auto failure = try_ranks(body, size, options);
  REQUIRE(failure.has_value());
  return *failure;
}

/// `on_stop`: what SIGTERM does, instead of the test framework's report.
[[noreturn]] void sleep_for_ever(sighandler_t on_stop = SIG_DFL) {
  ::signal(SIGTERM, on_stop);
  while (true) ::pause();
}

TEST_CASE("spawn can be called again, and inside a rank") {
  const SharedNumbers count;
  for (int i = 0; i < 2; ++i) spawn([&](World&) { ++count[0]; }, 2);
  spawn([&](int) { spawn([&](World& world) { count[1] += world.info().size; }, 3); }, 2);
  CHECK(count[0] == 4);
  CHECK(count[1] == 2 * 3 * 3);
}

TEST_CASE("an exception comes back with its rank and text, and ends the rest") {
  const SharedNumbers pids;
  const SpawnFailure failure = failure_of(
      [&](int rank) {
        ::signal(SIGTERM, SIG_DFL);
        pids[rank] = ::getpid();
        if (rank != 2) sleep_for_ever();
        pids.wait_for(0);
        pids.wait_for(1);
        throw std::runtime_error("no data in 'x.bin'");
      },
      3);
  CHECK(failure.rank == 2);
  CHECK(failure.text == "no data in 'x.bin'");
  CHECK_THAT(describe(failure, 3), Contains("rank 2 of 3 failed: no data in 'x.bin'"));
  for (int rank = 0; rank < 3; ++rank) CHECK(is_gone(pids[rank]));
}

TEST_CASE("after the grace period a rank that ignores SIGTERM or is stopped is killed") {
  const SharedNumbers pids;
  SpawnOptions options;
  options.grace = milliseconds(50);
  const SpawnFailure failure = failure_of(
      [&](int rank) {
        ::signal(SIGTERM, rank == 0 ? SIG_IGN : SIG_DFL);
        pids[rank] = ::getpid();
        if (rank == 1) ::raise(SIGSTOP);
        if (rank < 2) sleep_for_ever(SIG_IGN);
        pids.wait_for(0);
        pids.wait_for(1);
        throw std::runtime_error("enough");
      },
      3, options);
  CHECK(failure.rank == 2);
  CHECK(is_gone(pids[0]));
  CHECK(is_gone(pids[1]));
}

TEST_CASE("the deadline names those that still run") {
  // Long enough for three processes to start, and two to end, which a busy machine may hold up.
  for (const auto& [limit, name] : {std::pair(seconds(3), "3000 ms"), std::pair(seconds(30), "30000 ms")}) {
    SpawnOptions options;
    options.deadline = limit;
    const SpawnFailure failure = failure_of(
        [](int rank) {
          if (rank == 1) sleep_for_ever();
        },
        3, options);
    CHECK(failure.rank == -1);
    CHECK_THAT(failure.text, Contains(name));
    if (limit < seconds(30) && failure.text.find("still run: rank 1;") == std::string::npos) continue;
    CHECK_THAT(failure.text, Contains("still run: rank 1;"));
    return;
  }
}

/// A process that leaves its parent's session and tree.
void start_daemon(std::atomic<int>& pid) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    pid = ::getpid();
    sleep_for_ever();
  }
  ::waitpid(child, nullptr, 0);
  while (pid.load() == 0) ::usleep(500);
}

TEST_CASE("what the ranks started ends with them") {
  const SharedNumbers daemons;
  spawn([&](int rank) { start_daemon(daemons[rank]); }, 2);
  CHECK(is_gone(daemons[0]));
  CHECK(is_gone(daemons[1]));
}

TEST_CASE("the ranks and what they started end with the program, even if it is killed") {
  const SharedNumbers pids;
  const pid_t program = ::fork();
  if (program == 0) {
    spawn(
        [&](int rank) {
          start_daemon(pids[2 + rank]);
          pids[rank] = ::getpid();
          sleep_for_ever();
        },
        2);
    ::_exit(0);
  }
  pids.wait_for(0);
  pids.wait_for(1);
  ::kill(program, SIGKILL);
  ::waitpid(program, nullptr, 0);
  for (int i = 0; i < 4; ++i) wait_until_gone(pids[i]);
}

TEST_CASE("wrong arguments of spawn are refused") {
  SpawnOptions options;
  CHECK_THROWS_AS(spawn([](int) {}, 0, options), Error);
  CHECK_THROWS_AS(spawn([](int) {}, -3, options), Error);
  options.deadline = milliseconds(0);
  CHECK_THROWS_AS(spawn([](int) {}, 1, options), Error);
}

TEST_CASE("a world cannot be used in a process forked after it was made") {
  const SharedNumbers codes;
  spawn(
      [&](World& world) {
        const pid_t child = ::fork();
        if (child == 0) {
          const auto code_of = [](const auto& call) {
            try {
              call();
            } catch (const Error& error) {
              return static_cast<int>(error.code());
            }
            return 0;
          };
          codes[0] = code_of([&] { world.group(); });
          codes[1] = code_of([&] { world.store(); });
          codes[2] = code_of([&] { world.barrier("b", seconds(1)); });
          ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
        world.group().barrier();
      },
      1);
  for (int i = 0; i < 3; ++i) CHECK(codes[i] == static_cast<int>(ErrorCode::state));
}

}  // namespace
}  // namespace muster
