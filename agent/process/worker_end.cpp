// SPDX-License-Identifier: Apache-2.0
#include "agent/process/worker_end.hpp"

#include "rendezvous/base/posix.hpp"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace muster::agent {
namespace {

#ifndef P_PIDFD
constexpr auto P_PIDFD = static_cast<idtype_t>(3);
#endif

constexpr std::size_t kThreadTextMost = 8192;

ExitStatus status_from(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {ExitStatus::Kind::exited, info.si_status, false};
  return {ExitStatus::Kind::signaled, info.si_status, info.si_code == CLD_DUMPED};
}

/// Workers have the limit that we have; the kernel's signals are SIGXCPU at the soft one, SIGKILL at the hard
/// one. It counts whole ticks for that, which is some percent more than what it says was used. 0: another
/// end.
std::int64_t cpu_limit_s(const ExitStatus& status, const rusage& used) {
  rlimit limit{};
  if (status.kind != ExitStatus::Kind::signaled || ::getrlimit(RLIMIT_CPU, &limit) != 0) return 0;
  if (status.value != SIGXCPU && status.value != SIGKILL) return 0;
  const rlim_t allowed = status.value == SIGKILL ? limit.rlim_max : limit.rlim_cur;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  constexpr double kMostOf = 0.8;
  const double used_s = seconds(used.ru_utime) + seconds(used.ru_stime);
  if (allowed == RLIM_INFINITY || used_s < kMostOf * static_cast<double>(allowed)) return 0;
  return static_cast<std::int64_t>(allowed);
}

}  // namespace

std::optional<WorkerEnd> reap_worker(int local_rank, int pidfd) {
  siginfo_t info{};
  rusage used{};
  // The library's waitid() does not ask what the process has used.
  if (::syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG, &used) != 0 || info.si_pid == 0)
    return std::nullopt;
  const ExitStatus status = status_from(info);
  return WorkerEnd{local_rank, status, cpu_limit_s(status, used)};
}

bool thread_is_ending(const std::string& stat, const std::string& status) {
  constexpr unsigned kExiting = 0x4;  // PF_EXITING
  // The name may hold anything, a closing parenthesis too: the last one ends it.
  const std::size_t close = stat.rfind(')');
  char state = 0;
  unsigned flags = 0;
  if (close == std::string::npos ||
      std::sscanf(stat.c_str() + close + 1, " %c %*d %*d %*d %*u %*d %u", &state, &flags) < 1)
    return false;
  if (state == 'Z' || state == 'X' || (flags & kExiting) != 0) return true;
  for (const std::string_view label : {"\nSigPnd:", "\nShdPnd:"}) {
    const std::size_t at = status.find(label);
    if (at == std::string::npos) continue;
    const std::uint64_t pending = std::strtoull(status.c_str() + at + label.size(), nullptr, 16);
    if ((pending >> (SIGKILL - 1) & 1U) != 0) return true;
  }
  return false;
}

bool is_ending(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir(folder.c_str()), ::closedir);
  if (!threads) return false;
  bool any = false;
  while (const dirent* entry = ::readdir(threads.get())) {
    if (entry->d_name[0] == '.') continue;
    const std::string thread = folder + "/" + entry->d_name;
    const auto stat = read_file(thread + "/stat", kThreadTextMost);
    if (!stat) continue;  // it has ended meanwhile
    if (!thread_is_ending(*stat, read_file(thread + "/status", kThreadTextMost).value_or(""))) return false;
    any = true;
  }
  return any;
}

void wait_for_end(int pidfd, std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  pollfd ended{pidfd, POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
}

}  // namespace muster::agent
