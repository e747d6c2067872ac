// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/own_program.hpp"

#include <limits.h>
#include <unistd.h>

namespace muster::launcher {

std::string own_executable() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path);
  return size > 0 && size < static_cast<ssize_t>(sizeof path)
             ? std::string(path, static_cast<std::size_t>(size))
             : std::string();
}

std::string environment_python() {
  const std::string own = own_executable();
  const std::string directory = own.substr(0, own.rfind('/') + 1);
  if (directory.empty() || ::access((directory + "../pyvenv.cfg").c_str(), R_OK) != 0) return "";
  std::string python = directory + "python3";
  return ::access(python.c_str(), X_OK) == 0 ? python : "";
}

}  // namespace muster::launcher
