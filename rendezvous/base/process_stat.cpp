// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/process_stat.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/text.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <utility>

namespace muster {

std::optional<ProcessStat> parse_process_stat(const std::string& text) {
  // The name may hold any character, even a closing parenthesis, so the last parenthesis ends it.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  unsigned long long start_time = 0;
  // The fields are: state ppid pgrp session tty_nr tpgid, flags to nice, num_threads, itrealvalue, starttime.
  constexpr const char* kFormat =
      " %c %d %d %d %lu %d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu";
  if (std::sscanf(text.c_str() + close + 1, kFormat, &stat.state, &stat.parent, &stat.group, &stat.session,
                  &stat.terminal, &stat.foreground_group, &stat.threads, &start_time) < 1)
    return std::nullopt;
  stat.start_time = start_time;
  return stat;
}

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  constexpr std::size_t kMostBytes = 4096;
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat", kMostBytes);
  if (!text) return std::nullopt;
  auto stat = parse_process_stat(*text);
  if (stat)
    stat->pid = pid;
  else
    errno = EINVAL;
  return stat;
}

std::vector<ProcessStat> all_processes() {
  std::vector<ProcessStat> processes;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return processes;
  while (const dirent* entry = ::readdir(proc.get())) {
    const auto pid = parse_number<pid_t>(entry->d_name);
    if (!pid) continue;
    if (auto process = read_process_stat(*pid)) processes.push_back(std::move(*process));
  }
  return processes;
}

std::uint64_t start_time_of(pid_t pid) {
  const auto stat = read_process_stat(pid);
  return stat && !stat->is_zombie() ? stat->start_time : 0;
}

std::string boot_id() {
  constexpr std::size_t kMostBytes = 64;
  const std::string text = read_file("/proc/sys/kernel/random/boot_id", kMostBytes).value_or("");
  return text.substr(0, text.find('\n'));
}

std::uint64_t own_pid_namespace() {
  struct stat status {};

  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace muster
