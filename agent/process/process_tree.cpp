// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_tree.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/text.hpp"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace muster::agent {
namespace {

std::optional<ProcessInfo> read_process(pid_t pid) {
  auto stat = read_process_stat(pid);
  if (!stat) return std::nullopt;
  ProcessInfo info;
  info.pid = pid;
  info.parent = stat->parent;
  info.name = std::move(stat->name);
  info.start_time = stat->start_time;
  // A process whose main thread has ended shows as a zombie too, but its other threads live and can be
  // killed.
  info.zombie = stat->is_zombie() && stat->threads <= 1;
  return info;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return processes;
  while (const dirent* entry = ::readdir(proc.get())) {
    const auto pid = parse_number<pid_t>(entry->d_name);
    if (!pid) continue;
    if (auto info = read_process(*pid)) processes.push_back(std::move(*info));
  }
  return processes;
}

}  // namespace

std::string proc_trouble() {
  char target[32] = {};
  const bool there = ::readlink("/proc/self", target, sizeof target - 1) > 0;
  if (there && target == std::to_string(::getpid())) return {};
  return std::string(there ? "/proc shows the processes of another PID namespace than ours"
                           : "/proc is not mounted") +
         ", so nothing that a worker leaves behind could be found and ended; mount it by 'mount -t proc proc "
         "/proc' (unshare --pid: add --mount-proc)";
}

std::optional<ProcessInfo> process_info(pid_t pid) {
  return read_process(pid);
}

std::vector<ProcessInfo> descendants_of(pid_t root, const std::vector<pid_t>& except) {
  const std::vector<ProcessInfo> all = all_processes();
  std::vector<ProcessInfo> found;
  std::vector<pid_t> parents{root};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (const ProcessInfo& process : all) {
      if (process.parent != parent || std::find(except.begin(), except.end(), process.pid) != except.end())
        continue;
      parents.push_back(process.pid);
      if (!process.zombie) found.push_back(process);
    }
  }
  return found;
}

std::string list_processes(const std::vector<ProcessInfo>& processes) {
  return joined_by(processes,
                   [](const ProcessInfo& one) { return std::to_string(one.pid) + " " + one.name; });
}

bool signal_process(const ProcessInfo& process, int signal) {
  // The pidfd pins the process; only then is its start time compared, so the pid cannot change hands in
  // between.
  const UniqueFd pidfd = open_pidfd(process.pid);
  if (!pidfd) return false;
  const auto current = read_process(process.pid);
  if (!current || current->start_time != process.start_time) return false;
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

std::vector<ProcessInfo> kill_descendants(const std::vector<pid_t>& except) {
  std::vector<ProcessInfo> stopped;
  std::set<pid_t> known;
  constexpr int kEnumerationsMax = 64;  // a fork bomb is frozen a generation per pass
  for (int pass = 0; pass < kEnumerationsMax; ++pass) {
    bool found_new = false;
    for (ProcessInfo& process : descendants_of(::getpid(), except)) {
      if (!known.insert(process.pid).second) continue;
      found_new = true;
      if (signal_process(process, SIGSTOP)) stopped.push_back(std::move(process));
    }
    if (!found_new) break;
  }
  for (const ProcessInfo& process : stopped) signal_process(process, SIGKILL);
  return stopped;
}

bool reap_children(const std::vector<pid_t>& keep) {
  const auto kept = [&keep](pid_t pid) { return std::find(keep.begin(), keep.end(), pid) != keep.end(); };
  if (keep.empty()) {
    pid_t pid = 0;
    do pid = ::waitpid(-1, nullptr, WNOHANG);
    while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid == 0;
  }
  bool any_left = false;
  for (const ProcessInfo& process : all_processes()) {
    if (process.parent != ::getpid() || kept(process.pid)) continue;
    if (::waitpid(process.pid, nullptr, WNOHANG) == 0) any_left = true;
  }
  return any_left;
}

bool end_all_descendants(const std::vector<pid_t>& except, int limit_ms) {
  const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (reap_children(except)) {
    if (std::chrono::steady_clock::now() >= give_up_at) return false;
    kill_descendants(except);
    if (!reap_children(except)) return true;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

void become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
    throw_errno("cannot become the reaper of orphaned processes");
}

}  // namespace muster::agent
