// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/process_state.hpp"

#include "rendezvous/base/process_stat.hpp"

#include <cerrno>

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

ProcessLook look_at(std::int32_t pid) {
  const auto stat = read_process_stat(pid);
  if (stat) return {state_of(stat->state), stat->start_time};
  return {errno == ENOENT || errno == ESRCH ? ProcessState::gone : ProcessState::unknown, 0};
}

}  // namespace muster::status
