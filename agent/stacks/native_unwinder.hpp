// SPDX-License-Identifier: Apache-2.0
// From copied registers and stacks to calls, while the threads go on.
#pragma once

#include "agent/stacks/core/process_stacks.hpp"
#include "agent/stacks/thread_stop.hpp"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::agent {

struct Libdw;

/// A thread as it was while it was stopped.
struct ThreadCopy {
  int tid = 0;
  std::string name;
  ThreadRegisters registers;
  /// The stack from this address on, which is below its pointer where that can be read: a function about to
  /// return has its caller's registers there still.
  std::uint64_t stack_begin = 0;
  std::vector<std::byte> stack;
  /// Why it could not be copied; empty: it was.
  std::string error;
};

/// Most calls of a thread that are found.
inline constexpr std::size_t kNativeFramesMax = 64;

/// Finds the calls of one process's threads by the unwind tables of its files, as elfutils does. Reads those
/// files, as the process sees them, and waits for them as long as the kernel makes it wait. Used from one
/// thread.
class NativeUnwinder {
 public:
  /// Is told the path of the file that libdw is about to read; it must not throw.
  using Reads = std::function<void(const char* path)>;

  /// `maps`: the text of /proc/PID/maps. Throws std::runtime_error if libdw cannot make anything of it.
  NativeUnwinder(const Libdw& libdw, pid_t pid, std::string maps, Reads reads);
  ~NativeUnwinder();

  NativeUnwinder(const NativeUnwinder&) = delete;
  NativeUnwinder& operator=(const NativeUnwinder&) = delete;

  /// Returns its calls with the functions' names.
  NativeThread unwind(const ThreadCopy& copy);

  /// Adds source files and lines to the calls of a thread that unwind() has returned for this copy, where the
  /// files hold them. It may read much.
  void add_lines(NativeThread& thread);

 private:
  struct Session;

  std::unique_ptr<Session> session_;
};

}  // namespace muster::agent
