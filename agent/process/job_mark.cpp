// SPDX-License-Identifier: Apache-2.0
#include "agent/process/job_mark.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>

namespace muster::agent {
namespace {

std::string name_of(pid_t pid) {
  const auto process = read_process_stat(pid);
  return std::to_string(pid) + "." + std::to_string(process ? process->start_time : 0);
}

/// Takes digits and the separator after them (none at the end of the text); nothing if there are none.
std::optional<std::uint64_t> take_number(std::string_view& text, char separator) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (separator == '\0') return text.empty() ? std::optional(number) : std::nullopt;
  if (!text.starts_with(separator)) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

bool is_alive(std::uint64_t pid, std::uint64_t start_time) {
  const auto process = read_process_stat(static_cast<pid_t>(pid));
  return process && !process->has_ended() && process->start_time == start_time;
}

/// Returns the mark in the environment of a process; empty for a process of somebody else, or one that has
/// ended.
std::string mark_of(pid_t pid) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/environ").value_or("");
  const std::string wanted = std::string(kJobMarkVariable) + "=";
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    if (text.compare(begin, wanted.size(), wanted) == 0)
      return text.substr(begin + wanted.size(), end - begin - wanted.size());
    begin = end + 1;
  }
  return {};
}

/// Returns this process, those above it and those below it.
std::set<pid_t> own_family() {
  std::set<pid_t> family{::getpid()};
  for (const ProcessStat& process : descendants_of(::getpid())) family.insert(process.pid);
  for (auto process = read_process_stat(::getpid()); process && process->parent > 0;
       process = read_process_stat(process->parent))
    family.insert(process->parent);
  return family;
}

}  // namespace

std::string job_mark() {
  return std::to_string(own_pid_namespace()) + ":" + name_of(::getppid()) + ":" + name_of(::getpid());
}

bool is_orphaned_mark(std::string_view mark) {
  const auto pid_namespace = take_number(mark, ':');
  const auto guardian = take_number(mark, '.');
  const auto guardian_start = take_number(mark, ':');
  const auto agent = take_number(mark, '.');
  const auto agent_start = take_number(mark, '\0');
  if (!pid_namespace || !guardian || !guardian_start || !agent || !agent_start) return false;
  if (*pid_namespace == 0 || *pid_namespace != own_pid_namespace()) return false;
  return !is_alive(*guardian, *guardian_start) && !is_alive(*agent, *agent_start);
}

std::vector<ProcessStat> end_orphans() {
  std::vector<ProcessStat> ended;
  std::optional<std::set<pid_t>> family;
  // The start time of each process is known before its mark is read, so that no other process with its pid is
  // killed.
  for (const ProcessStat& process : all_processes()) {
    if (process.has_ended()) continue;
    const std::string mark = mark_of(process.pid);
    if (mark.empty() || !is_orphaned_mark(mark)) continue;
    if (!family) family = own_family();
    if (!family->contains(process.pid) && signal_process(process, SIGKILL)) ended.push_back(process);
  }
  return ended;
}

}  // namespace muster::agent
