// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/process_words.hpp"

#include "rendezvous/base/text.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

namespace muster::agent {
namespace {

struct CallName {
  long number;
  const char* name;
};

/// The calls that a program which seems to hang is in, on every kind of machine.
constexpr CallName kCallNames[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_openat, "openat"},
    {SYS_close, "close"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_ioctl, "ioctl"},
    {SYS_futex, "futex"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect6"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept4, "accept4"},
    {SYS_connect, "connect"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_rt_sigsuspend, "rt_sigsuspend"},
    {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
    {SYS_munmap, "munmap"},
    {SYS_exit_group, "exit_group"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
    {SYS_open, "open"},
    {SYS_stat, "stat"},
#endif
};

std::string_view words_for(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
    case 'I':
      return "sleeping";
    case 'D':
      return "in the kernel (D state)";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by a debugger";
    case 'Z':
    case 'X':
      return "dead";
    default:
      return "in an unknown state";
  }
}

/// Returns `found` and what is below `parents`, nearest first.
std::vector<ProcessStat> descendants(const std::vector<ProcessStat>& all, std::vector<int> parents,
                                     std::vector<ProcessStat> found) {
  std::set<int> known(parents.begin(), parents.end());
  for (std::size_t next = 0; next < parents.size(); ++next) {
    for (const ProcessStat& one : all) {
      if (one.parent != parents[next] || !known.insert(one.pid).second) continue;
      parents.push_back(one.pid);
      found.push_back(one);
    }
  }
  return found;
}

/// Returns the kernel's name of a place; empty if it tells none, or this is no name.
std::string channel_name(const std::string& text) {
  constexpr std::size_t kNameMost = 64;
  const std::string name = text.substr(0, std::min(text.find('\n'), kNameMost));
  const auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  return name != "0" && std::all_of(name.begin(), name.end(), in_name) ? name : std::string();
}

}  // namespace

std::string system_call_name(long number) {
  for (const CallName& call : kCallNames)
    if (call.number == number) return call.name;
  return std::to_string(number);
}

std::string describe_state(char state, const std::string& wait_channel, const std::string& syscall) {
  std::string text(words_for(state));
  if (state != 'S' && state != 'D' && state != 'I') return text;
  // "running" and "-1 ..." are not in a system call.
  const auto number = parse_number<long>(std::string_view(syscall).substr(0, syscall.find_first_of(" \n")));
  if (number && *number >= 0) text += " in the system call " + system_call_name(*number);
  const std::string channel = channel_name(wait_channel);
  return channel.empty() ? text : text + " (" + channel + ")";
}

std::vector<ProcessStat> processes_below(const std::vector<ProcessStat>& all, int ancestor, int worker) {
  const std::vector<ProcessStat> ours = descendants(all, {ancestor}, {});
  const auto session_of = [&ours](int pid) {
    const auto at =
        std::find_if(ours.begin(), ours.end(), [pid](const ProcessStat& one) { return one.pid == pid; });
    return at == ours.end() ? 0 : at->session;
  };
  std::vector<ProcessStat> nearest;
  for (const ProcessStat& one : ours)
    if (one.parent == worker) nearest.push_back(one);
  for (const ProcessStat& one : ours)
    if (one.session == worker && one.pid != worker && session_of(one.parent) != worker)
      nearest.push_back(one);
  std::vector<int> parents;
  for (const ProcessStat& one : nearest) parents.push_back(one.pid);
  std::vector<ProcessStat> found = descendants(ours, parents, std::move(nearest));
  std::erase_if(found, [](const ProcessStat& one) { return one.has_ended(); });
  return found;
}

}  // namespace muster::agent
