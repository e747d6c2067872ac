// SPDX-License-Identifier: Apache-2.0
#include "agent/process/signal_evidence.hpp"

#include "agent/core/proc_text.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace muster::agent {
namespace {

constexpr std::size_t kMostBytes = 8192;

ChildWait wait4_of(pid_t argument, pid_t own_group) {
  if (argument > 0) return {ChildWait::Kind::one, argument};
  if (argument == -1) return {ChildWait::Kind::any, 0};
  return {ChildWait::Kind::group, argument == 0 ? own_group : -argument};
}

ChildWait waitid_of(long type, pid_t id, pid_t own_group, const std::function<pid_t(int)>& pid_of_pidfd) {
  constexpr long kPidfd = 3;  // P_PIDFD, which older headers lack
  if (type == P_ALL) return {ChildWait::Kind::any, 0};
  if (type == P_PID) return {ChildWait::Kind::one, id};
  if (type == P_PGID) return {ChildWait::Kind::group, id == 0 ? own_group : id};
  const pid_t pid = type == kPidfd ? pid_of_pidfd(id) : 0;
  return pid > 0 ? ChildWait{ChildWait::Kind::one, pid} : ChildWait{};
}

std::string proc_path(pid_t pid, const std::string& file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

/// Returns the process behind a pidfd of `pid`; 0 if the descriptor is no pidfd, or its process has ended.
pid_t pid_of_pidfd(pid_t pid, int fd) {
  const auto text = read_file(proc_path(pid, "fdinfo/" + std::to_string(fd)), kMostBytes);
  constexpr std::string_view kLabel = "\nPid:\t";
  const std::size_t at = text ? text->find(kLabel) : std::string::npos;
  if (at == std::string::npos) return 0;
  const std::size_t begin = at + kLabel.size();
  return std::max<pid_t>(
      0, parse_number<pid_t>(text->substr(begin, text->find('\n', begin) - begin)).value_or(0));
}

}  // namespace

ChildWait parse_child_wait(const std::string& text, pid_t own_group,
                           const std::function<pid_t(int fd)>& pid_of_pidfd) {
  const auto call = parse_waiting_call(text);
  if (!call) return {};
  // The kernel shows registers; the arguments are 32 bits wide.
  const auto argument = [&call](std::size_t index) {
    return static_cast<pid_t>(static_cast<std::uint32_t>(call->arguments.at(index)));
  };
  if (call->number == SYS_wait4) return wait4_of(argument(0), own_group);
  if (call->number == SYS_waitid) return waitid_of(argument(0), argument(1), own_group, pid_of_pidfd);
  // Some shells (zsh, tcsh) wait for SIGCHLD before they ask for their children.
  if (call->number == SYS_rt_sigsuspend) return {ChildWait::Kind::any, 0};
  return {};
}

std::optional<SignalSets> parse_signal_sets(const std::string& status) {
  const auto set = [&status](const char* label) -> std::optional<std::uint64_t> {
    const std::size_t at = status.find(label);
    if (at == std::string::npos) return std::nullopt;
    return std::strtoull(status.c_str() + at + std::char_traits<char>::length(label), nullptr, 16);
  };
  const auto ignored = set("\nSigIgn:");
  const auto caught = set("\nSigCgt:");
  if (!ignored || !caught) return std::nullopt;
  return SignalSets{*ignored, *caught};
}

ChildWait read_child_wait(const ProcessStat& process) {
  const auto text = read_file(proc_path(process.pid, "syscall"), kMostBytes);
  if (!text) return {ChildWait::Kind::unreadable, 0};
  return parse_child_wait(*text, process.group, [&process](int fd) { return pid_of_pidfd(process.pid, fd); });
}

std::optional<SignalSets> read_signal_sets(const ProcessStat& process) {
  const auto text = read_file(proc_path(process.pid, "status"), kStatusTextMost);
  return text ? parse_signal_sets(*text) : std::nullopt;
}

}  // namespace muster::agent
