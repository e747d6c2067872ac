// SPDX-License-Identifier: Apache-2.0
#include "agent/process/worker_end.hpp"

#include "agent/process/process_tree.hpp"
#include "rendezvous/base/posix.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace muster::agent {
namespace {

#ifndef P_PIDFD
constexpr auto P_PIDFD = static_cast<idtype_t>(3);
#endif

ExitStatus status_from(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {ExitStatus::Kind::exited, info.si_status, false};
  return {ExitStatus::Kind::signaled, info.si_status, info.si_code == CLD_DUMPED};
}

/// Returns the limit of CPU time by which the kernel ended a worker; 0 if it ended otherwise. Workers have
/// the limit that we have; the kernel sends SIGXCPU at the soft one, SIGKILL at the hard one. It counts whole
/// ticks for that, which is some percent more than what it says was used.
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
  if (::syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG, &used) != 0 || !tells_end(info))
    return std::nullopt;
  const ExitStatus status = status_from(info);
  return WorkerEnd{local_rank, status, cpu_limit_s(status, used)};
}

bool has_kill_pending(const std::string& status) {
  constexpr std::string_view kLabel = "\nShdPnd:";
  const std::size_t at = status.find(kLabel);
  if (at == std::string::npos) return false;
  const std::uint64_t pending = std::strtoull(status.c_str() + at + kLabel.size(), nullptr, 16);
  return (pending >> (SIGKILL - 1) & 1U) != 0;
}

bool is_being_killed(pid_t pid) {
  return has_kill_pending(
      read_file("/proc/" + std::to_string(pid) + "/status", kStatusTextMost).value_or(""));
}

}  // namespace muster::agent
