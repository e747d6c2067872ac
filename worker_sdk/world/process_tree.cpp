// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/process_stat.hpp"
#include "worker_sdk/world/spawn_keeper.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace muster {

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> children;
  for (const ProcessStat& process : all_processes())
    if (process.parent == ::getpid()) children.push_back(process.pid);
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
