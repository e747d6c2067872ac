// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_tree.hpp"

#include "rendezvous/base/own_child.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <string>

namespace muster::agent {
namespace {

/// Whether this process has a child, ended or not, besides those that work for it.
bool has_other_child() {
  const std::vector<ProcessStat> all = all_processes();
  return std::any_of(all.begin(), all.end(), [](const ProcessStat& one) {
    return one.parent == ::getpid() && !is_own_child(one.pid);
  });
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

std::vector<ProcessStat> descendants_of(pid_t root, const std::vector<pid_t>& except) {
  const std::vector<ProcessStat> all = all_processes();
  std::vector<ProcessStat> found;
  std::vector<pid_t> parents{root};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (const ProcessStat& process : all) {
      if (process.parent != parent || std::find(except.begin(), except.end(), process.pid) != except.end() ||
          is_own_child(process.pid))
        continue;
      parents.push_back(process.pid);
      if (!process.has_ended()) found.push_back(process);
    }
  }
  return found;
}

std::string list_processes(const std::vector<ProcessStat>& processes) {
  return joined_by(processes,
                   [](const ProcessStat& one) { return std::to_string(one.pid) + " " + one.name; });
}

bool signal_process(const ProcessStat& process, int signal) {
  // The pidfd pins the process; only then is its start time compared, so the pid cannot change hands in
  // between.
  const UniqueFd pidfd = open_pidfd(process.pid);
  if (!pidfd) return false;
  const auto current = read_process_stat(process.pid);
  if (!current || current->start_time != process.start_time) return false;
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) == 0;
}

std::vector<ProcessStat> kill_descendants(const std::vector<pid_t>& except) {
  std::vector<ProcessStat> stopped;
  std::set<pid_t> known;
  constexpr int kEnumerationsMax = 64;  // a fork bomb is frozen a generation per pass
  for (int pass = 0; pass < kEnumerationsMax; ++pass) {
    bool found_new = false;
    for (ProcessStat& process : descendants_of(::getpid(), except)) {
      if (!known.insert(process.pid).second) continue;
      found_new = true;
      if (signal_process(process, SIGSTOP)) stopped.push_back(std::move(process));
    }
    if (!found_new) break;
  }
  for (const ProcessStat& process : stopped) signal_process(process, SIGKILL);
  return stopped;
}

bool tells_end(const siginfo_t& info) {
  return info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED;
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
  for (const ProcessStat& process : all_processes()) {
    if (process.parent != ::getpid() || kept(process.pid)) continue;
    siginfo_t info{};
    const bool is_child = ::waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOHANG) == 0;
    if (is_child && !tells_end(info)) any_left = true;
  }
  return any_left;
}

Orphans reap_orphans(const std::function<bool(pid_t)>& kept,
                     const std::function<void(pid_t, bool by_itself)>& reaped) {
  Orphans orphans;
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      orphans.children_left = errno != ECHILD;
      return orphans;
    }
    if (info.si_pid == 0) {
      orphans.children_left = !has_own_child() || has_other_child();
      return orphans;
    }
    if (reap_own_child(info.si_pid)) continue;
    orphans.met_kept = !tells_end(info) || kept(info.si_pid);
    if (orphans.met_kept) return orphans;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
    if (reaped) reaped(info.si_pid, info.si_code == CLD_EXITED);
    orphans.any = true;
  }
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
