// SPDX-License-Identifier: Apache-2.0
// Starts one worker. What is said here about Boost.Process 1.81 was found by experiment: docs/decisions/.
#pragma once

#include "agent/process/signal_state.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace muster::agent {

/// What a worker starts with.
struct ChildSpec {
  /// Path of the program (a slash in it, or found by find_program()).
  std::string program;
  /// Arguments; arguments[0] is the name the program sees.
  std::vector<std::string> arguments;
  /// The whole environment.
  std::vector<std::pair<std::string, std::string>> environment;
  /// Descriptors that become 0, 1 and 2 of the worker; -1 leaves it ours.
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  /// The CPUs that the worker may use, as affinity_mask() has them; if empty, those that we may use.
  std::vector<unsigned long> affinity;
  /// Signal mask and ignored signals that the worker gets.
  SignalState signals;
};

/// A started worker: leader of its own session, killed when the thread that started it dies.
struct Child {
  pid_t pid = -1;
  UniqueFd pidfd;
};

/// Starts the program with no descriptor beyond 0, 1 and 2.
/// Throws std::system_error (ENOENT, EACCES, ENOEXEC, EAGAIN...) when it could not be executed.
/// Call from the one thread that lives as long as the workers shall.
Child start_child(const ChildSpec& spec);

/// Returns the path that execvp would use: `name` itself if it has a slash, else the first executable file of
/// that name in `path` (a PATH value). Empty if there is none.
std::string find_program(const std::string& name, const std::string& path);

/// Returns the exit code that a shell gives when starting fails with this errno: 127 not found, else 126.
int start_error_exit_code(int error_number);

}  // namespace muster::agent
