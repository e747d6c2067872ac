// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/world/spawn_keeper.hpp"

#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>

namespace muster {

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  if (folder == nullptr) return children;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(folder.get())) {
    const auto pid = parse_number<pid_t>(entry->d_name);
    const auto process = pid ? read_process_stat(*pid) : std::nullopt;
    if (process && process->parent == self) children.push_back(*pid);
  }
  return children;
}

bool kill_children(std::chrono::steady_clock::time_point deadline) {
  while (true) {
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return true;  // no children
    if (std::chrono::steady_clock::now() >= deadline) return false;
    for (const pid_t child : children_of_this_process()) ::kill(child, SIGKILL);
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace muster
