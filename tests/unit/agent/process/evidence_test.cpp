// SPDX-License-Identifier: Apache-2.0
#include "agent/process/evidence.hpp"

#include "catch.hpp"
#include "rendezvous/base/posix.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <thread>

namespace evidence_test {

using namespace muster;
using namespace muster::agent;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// Uses this many milliseconds of CPU time.
void burn(int ms) {
  const std::clock_t end = std::clock() + static_cast<std::clock_t>(ms) * (CLOCKS_PER_SEC / 1000);
  while (std::clock() < end) {
  }
}

/// A child process that does one thing after another, each when it is told to.
class Worker {
 public:
  /// Runs `act` with each letter that it is told, and then says that it has; "." ends it.
  explicit Worker(const std::function<void(char)>& act) {
    std::array<int, 2> orders{};
    std::array<int, 2> answers{};
    REQUIRE(::pipe2(orders.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(answers.data(), O_CLOEXEC) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::close(orders[1]);
      char letter = 0;
      while (::read(orders[0], &letter, 1) == 1 && letter != '.') {
        act(letter);
        if (::write(answers[1], &letter, 1) != 1) break;
      }
      ::_exit(0);
    }
    ::close(orders[0]);
    ::close(answers[1]);
    orders_.reset(orders[1]);
    answers_.reset(answers[0]);
  }

  ~Worker() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  pid_t pid() const { return pid_; }

  void tell(char letter) {
    REQUIRE(::write(orders_.get(), &letter, 1) == 1);
    pollfd answer{answers_.get(), POLLIN, 0};
    REQUIRE(::poll(&answer, 1, 20'000) == 1);
    REQUIRE(::read(answers_.get(), &letter, 1) == 1);
  }

  void end() { REQUIRE(::write(orders_.get(), ".", 1) == 1); }

 private:
  pid_t pid_ = -1;
  UniqueFd orders_;
  UniqueFd answers_;
};

/// Reads until the kernel shows what `shown` waits for: a process that has answered may still be on its way
/// into its next system call.
WorkerSample read_until(WorkerEvidence& evidence, const std::function<bool(const WorkerSample&)>& shown) {
  const auto deadline = Clock::now() + 20s;
  for (;;) {
    auto sample = evidence.read(Clock::now());
    REQUIRE(sample);
    evidence.look_closer(*sample);
    if (shown(*sample) || Clock::now() > deadline) return *sample;
    ::sched_yield();
  }
}

bool reads(const WorkerSample& sample) {
  return sample.state == 'S' && (sample.call == SystemCall::read || sample.call == SystemCall::unknown);
}

}  // namespace

TEST_CASE("What a worker does is seen in its counters") {
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const std::string bytes(100'000, 'x');
  Worker worker([&](char letter) {
    if (letter == 'c') burn(60);
    // The next word may be there before it is read: this waits in any case.
    if (letter == 'w') std::this_thread::sleep_for(1ms);
    if (letter == 'w' && ::write(null.get(), bytes.data(), bytes.size()) < 0) ::_exit(1);
  });
  WorkerEvidence evidence(worker.pid());
  const auto first = evidence.read(Clock::now());
  REQUIRE(first);
  CHECK(first->memory > 0);
  CHECK(first->memory_peak >= first->memory);
  worker.tell('c');
  const auto computed = evidence.read(Clock::now());
  REQUIRE(computed);
  CHECK(computed->cpu - first->cpu >= 40ms);
  CHECK_FALSE(has_moved(*first, *computed));
  worker.tell('w');
  const auto wrote = evidence.read(Clock::now());
  REQUIRE(wrote);
  CHECK(wrote->voluntary_switches > first->voluntary_switches);
  CHECK(wrote->bytes_written - computed->bytes_written >= bytes.size());
  CHECK(has_moved(*computed, *wrote));
}

TEST_CASE("Where a worker waits is seen in its system call") {
  Worker worker([](char) {});
  WorkerEvidence evidence(worker.pid());
  worker.tell('x');
  const WorkerSample sample = read_until(evidence, reads);
  CHECK(sample.state == 'S');
  // Kernels and containers that show no system calls show no more than the wait channel, if that.
  if (sample.call != SystemCall::unknown) {
    CHECK(sample.call == SystemCall::read);
    CHECK(sample.descriptor == DescriptorKind::other);
  }
  REQUIRE(::kill(worker.pid(), SIGSTOP) == 0);
  const WorkerSample stopped = read_until(evidence, [](const WorkerSample& now) { return now.state == 'T'; });
  CHECK(stopped.state == 'T');
  ::kill(worker.pid(), SIGCONT);
}

TEST_CASE("CPU time of children counts while they live, and after they were reaped") {
  pid_t child = -1;
  std::array<int, 2> orders{};
  REQUIRE(::pipe2(orders.data(), O_CLOEXEC) == 0);
  std::array<int, 2> done{};
  REQUIRE(::pipe2(done.data(), O_CLOEXEC) == 0);
  const auto act = [&](char letter) {
    char order = 0;
    if (letter == 'f' && (child = ::fork()) == 0) {
      while (::read(orders[0], &order, 1) == 1 && order != '.') {
        burn(60);
        if (::write(done[1], &order, 1) != 1) break;
      }
      ::_exit(0);
    }
    // The child computes while its parent waits for it.
    if (letter == 'c' && (::write(orders[1], "c", 1) != 1 || ::read(done[0], &order, 1) != 1)) ::_exit(1);
    if (letter == 'r' && (::write(orders[1], "c.", 2) != 2 || ::waitpid(child, nullptr, 0) != child))
      ::_exit(1);
  };
  Worker worker(act);
  WorkerEvidence evidence(worker.pid());
  REQUIRE(evidence.read(Clock::now()));
  worker.tell('f');
  auto before = evidence.read(Clock::now());
  REQUIRE(before);
  evidence.look_closer(*before);
  CHECK(before->helpers == 1);
  worker.tell('c');
  const auto lives = evidence.read(Clock::now());
  REQUIRE(lives);
  CHECK(lives->helpers == 1);
  CHECK(lives->helpers_cpu - before->helpers_cpu >= 40ms);
  worker.tell('r');
  const auto reaped = evidence.read(Clock::now());
  REQUIRE(reaped);
  CHECK(reaped->helpers == 0);
  CHECK(reaped->helpers_cpu - lives->helpers_cpu >= 40ms);
}

TEST_CASE("The program below a shell that waits for it is found") {
  const pid_t shell = ::fork();
  REQUIRE(shell >= 0);
  if (shell == 0) {
    ::setpgid(0, 0);
    ::execl("/bin/sh", "sh", "-c", "sleep 100; true", nullptr);
    ::_exit(127);
  }
  WorkerEvidence evidence(shell);
  const auto deadline = Clock::now() + 20s;
  std::optional<pid_t> program;
  while (!program && Clock::now() < deadline) {
    program = evidence.wrapped_program();
    ::sched_yield();
  }
  REQUIRE(program);
  CHECK(*program != shell);
  // It waits for no program of its own.
  WorkerEvidence below(*program);
  CHECK(below.read(Clock::now()));
  CHECK_FALSE(below.wrapped_program());
  ::kill(-shell, SIGKILL);
  ::kill(shell, SIGKILL);
  ::waitpid(shell, nullptr, 0);
}

TEST_CASE("A process that has ended is not taken for another one") {
  Worker worker([](char) {});
  WorkerEvidence evidence(worker.pid());
  REQUIRE(evidence.read(Clock::now()));
  worker.end();
  siginfo_t info{};
  // A zombie has ended, too; nothing tells of it any more than of one that is reaped.
  REQUIRE(::waitid(P_PID, static_cast<id_t>(worker.pid()), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(evidence.read(Clock::now()));
  REQUIRE(::waitpid(worker.pid(), nullptr, 0) == worker.pid());
  CHECK_FALSE(evidence.read(Clock::now()));
  WorkerEvidence nobody(worker.pid());
  CHECK_FALSE(nobody.read(Clock::now()));
}

TEST_CASE("A worker that no signal reaches shows the kernel function that holds it") {
  // A parent waits so for a child that it has made with CLONE_VFORK, until that ends or starts a program.
  Worker worker([](char letter) {
    if (letter != 'v' || ::fork() != 0) return;
    ::setpgid(0, 0);
    constexpr long kFlags = CLONE_VFORK | SIGCHLD;
    if (::syscall(SYS_clone, kFlags, nullptr, nullptr, nullptr, nullptr) == 0)
      for (;;) ::pause();
    ::_exit(0);
  });
  worker.tell('v');
  const auto children = read_file("/proc/" + std::to_string(worker.pid()) + "/task/" +
                                  std::to_string(worker.pid()) + "/children");
  REQUIRE(children);
  const pid_t held = std::stoi(*children);
  WorkerEvidence evidence(held);
  const WorkerSample sample = read_until(
      evidence, [](const WorkerSample& now) { return now.state == 'D' && !now.wait_channel.empty(); });
  CHECK(sample.state == 'D');
  // Some kernels show neither the function nor the stack.
  CHECK(sample.wait_channel != "0");
  ::kill(-held, SIGKILL);
}

}  // namespace evidence_test
