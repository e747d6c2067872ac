// SPDX-License-Identifier: Apache-2.0
// Reads the Python stacks of running processes from outside.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/core/python_binary.hpp"
#include "agent/stacks/process_memory.hpp"

#include <sys/stat.h>
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace muster::agent {

struct MappedFile;
struct PythonRuntime;

/// Reads file, line and function of every Python thread of CPython 3.9 to 3.14, without stopping the process.
/// The caller must be allowed to (ptrace(2)): an ancestor is, under Yama's scopes 0 and 1. What it finds out
/// about a binary is kept, by device, inode, size and time of change; nothing else is. Used from one thread;
/// that thread waits as long as the kernel makes it wait for a file on a dead server or memory behind one,
/// whatever the deadline says.
class PythonStackReader {
 public:
  /// Reads the process, until the deadline at the latest. Never throws but std::bad_alloc: `error` of the
  /// result says what is missing and why. If pid is used again while it is read, nothing is returned of
  /// either process.
  ProcessStacks read(pid_t pid, StackDeadline deadline);

  /// The time that one process is given, at most.
  static constexpr std::chrono::milliseconds kProcessAtMost{100};

 private:
  using FileId = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;

  ProcessStacks read_python(pid_t pid, StackDeadline deadline);
  bool find_runtime(pid_t pid, const std::vector<MappedFile>& files, ProcessMemory& memory,
                    PythonRuntime& runtime, std::string& error);
  std::optional<PythonBinary> binary_of(int fd, FileBytes& file);

  /// What is known of each binary: nullopt where it holds no interpreter.
  std::map<FileId, std::optional<PythonBinary>> known_;
};

}  // namespace muster::agent
