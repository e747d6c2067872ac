// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/process_state.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>

namespace muster::status {
namespace {

ProcessState state_of(char letter) {
  switch (letter) {
    case 'R':
      return ProcessState::running;
    case 'S':
    case 'I':
      return ProcessState::sleeping;
    case 'D':
      return ProcessState::in_kernel;
    case 'T':
    case 't':
      return ProcessState::stopped;
    case 'Z':
    case 'X':
      return ProcessState::gone;
    default:
      return ProcessState::unknown;
  }
}

}  // namespace

std::string_view describe(ProcessState state) {
  switch (state) {
    case ProcessState::running:
      return "running";
    case ProcessState::sleeping:
      return "sleeping";
    case ProcessState::in_kernel:
      return "waiting in the kernel, for a disk or a device";
    case ProcessState::stopped:
      return "stopped by a signal or a debugger";
    case ProcessState::gone:
      return "dead";
    case ProcessState::unknown:
      break;
  }
  return "in an unknown state";
}

ProcessLook look_from(std::string_view stat) {
  // The name, field 2, may hold anything; fields are counted from its closing parenthesis.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || stat.size() < name_end + 3) return {};
  ProcessLook look;
  look.state = state_of(stat[name_end + 2]);
  std::size_t field = name_end + 1;
  for (int number = 3; number < 22; ++number) {
    field = stat.find(' ', field + 1);
    if (field == std::string_view::npos) return look;
  }
  const char* const begin = stat.data() + field + 1;
  std::from_chars(begin, stat.data() + stat.size(), look.start_time);
  return look;
}

ProcessLook look_at(std::int32_t pid) {
  const int fd = ::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {errno == ENOENT ? ProcessState::gone : ProcessState::unknown, 0};
  char text[1024];
  const ssize_t length = ::read(fd, text, sizeof text);
  const int error = errno;
  ::close(fd);
  if (length <= 0) return {error == ESRCH ? ProcessState::gone : ProcessState::unknown, 0};
  return look_from(std::string_view(text, static_cast<std::size_t>(length)));
}

}  // namespace muster::status
