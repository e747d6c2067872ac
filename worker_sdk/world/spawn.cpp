// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/spawn.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "worker_sdk/env/variable_reader.hpp"
#include "worker_sdk/world/spawn_keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

namespace muster {
namespace {

#if defined(MUSTER_SANITIZED_THREADS) || defined(__SANITIZE_THREAD__)
constexpr int kOwnThreads = 2;  // two, because ThreadSanitizer has a thread of its own
#else
constexpr int kOwnThreads = 1;
#endif

constexpr int kMostSpawned = 1024;
/// The number of looks, 1 ms apart, after which a counted thread is taken for alive.
constexpr int kMostLooks = 50;

/// The number of threads of this process; 0 when /proc does not tell it. /proc may show another PID
/// namespace, where our number belongs to another process.
int count_threads() {
  const auto self = parse_process_stat(read_file("/proc/self/stat").value_or(""));
  return self ? static_cast<int>(self->threads) : 0;
}

void check(int size, const SpawnOptions& options) {
  using std::chrono::milliseconds;
  if (size < 1 || size > kMostSpawned)
    throw Error(ErrorCode::invalid_argument, "spawn() starts 1 to " + std::to_string(kMostSpawned) +
                                                 " ranks, not " + std::to_string(size));
  if (options.grace < milliseconds(0) || (options.deadline && *options.deadline <= milliseconds(0)))
    throw Error(ErrorCode::invalid_argument,
                "spawn() needs a deadline above 0 ms and a grace of 0 ms or more");
  int threads = count_threads();
  // A thread that was just joined is still listed for a moment.
  for (int i = 0; threads > kOwnThreads && i < kMostLooks; ++i) {
    ::poll(nullptr, 0, 1);
    threads = count_threads();
  }
  if (threads > kOwnThreads)
    throw Error(ErrorCode::state,
                "spawn() in a process of " + std::to_string(threads) +
                    " threads: locks that they hold would stay locked in the ranks; call it "
                    "before threads, worlds or devices are used");
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string signal_text(int signal) {
  const char* name = signal_abbreviation(signal);
  return "signal " + std::to_string(signal) + (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
}

}  // namespace

std::string describe(const SpawnFailure& failure, int size) {
  if (failure.rank < 0) return failure.text;
  const std::string who = "rank " + std::to_string(failure.rank) + " of " + std::to_string(size);
  if (failure.signal != 0) return who + " was ended by " + signal_text(failure.signal);
  if (!failure.text.empty()) return who + " failed: " + failure.text;
  return who + " ended with exit code " + std::to_string(failure.exit_code);
}

std::optional<SpawnFailure> try_spawn(const std::function<int(int, int)>& body, int size,
                                      const SpawnOptions& options) {
  check(size, options);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorCode::io, std::string("spawn() cannot make a pipe: ") + std::strerror(errno));
  const UniqueFd report(ends[0]);
  UniqueFd keeper_end(ends[1]);
  KeeperPlan plan{body, size, options, report.get(), {}, {}};
  // Buffered output would be written again by every rank.
  flush_streams();
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &plan.mask);
  ::sigaction(SIGCHLD, nullptr, &plan.child_action);
  const pid_t keeper = ::fork();
  if (keeper == 0) run_keeper(plan, std::move(keeper_end));
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &plan.mask, nullptr);
  if (keeper < 0) throw Error(ErrorCode::io, std::string("spawn() cannot fork: ") + std::strerror(error));
  keeper_end.reset();
  const auto result = KeeperReport::from_text(read_to_end(report.get()).value_or(""));
  reap(keeper);
  if (!result)
    throw Error(ErrorCode::io, "the process that kept the ranks of spawn() (" + std::to_string(keeper) +
                                   ") was ended from outside, and the ranks with it");
  if (result->broken) throw Error(ErrorCode::io, "spawn() cannot start its ranks: " + result->failure.text);
  if (!result->failed) return std::nullopt;
  return result->failure;
}

}  // namespace muster
