// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/process_tree.hpp"

#include <dirent.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace muster {
namespace {

pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream words(line.substr(name_end + 1));
  std::string state;
  pid_t parent = 0;
  words >> state >> parent;
  return words ? parent : 0;
}

}  // namespace

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  if (folder == nullptr) return children;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(folder.get())) {
    const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (pid > 0 && parent_of(pid) == self) children.push_back(pid);
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
