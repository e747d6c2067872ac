// SPDX-License-Identifier: Apache-2.0
// Stops one thread of another process for a moment, so that it can be read.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace muster::agent {

/// The registers of a stopped thread, in DWARF's order of this processor.
struct ThreadRegisters {
  std::array<std::uint64_t, 32> values{};
  /// How many of them this processor has; 0: not known here.
  std::size_t count = 0;
  std::uint64_t stack_pointer = 0;
  std::uint64_t program_counter = 0;
};

/// How a stop went.
struct ThreadStop {
  /// The errno of ptrace(2), which was refused; 0: it was not.
  int refusal = 0;
  /// Whether the thread stopped, and was still stopped when all was read.
  bool read = false;
  /// From the request to stop until the thread could run again; 0: it has not stopped.
  std::chrono::microseconds stopped{0};
};

/// Whether the registers of this processor are known.
bool can_read_registers();

/// Stops the thread (PTRACE_SEIZE and PTRACE_INTERRUPT: it gets no signal, and none of its own is lost; a
/// call such as epoll_wait() may return EINTR),
/// calls `read` on the calling thread, and lets it go on. It is stopped for `at_most`, whatever `read` waits
/// for: a thread of ours that does nothing else holds it, lets it go on at that time, and the kernel does so
/// if that thread ends. A thread that somebody had stopped before stays so. `read` is not called if the
/// thread does not stop in that time, as in the kernel where no signal reaches it. What waits for ends of
/// children is told of the stop, too, see tells_end().
ThreadStop stop_thread(pid_t tid, std::chrono::milliseconds at_most,
                       const std::function<void(const ThreadRegisters&)>& read);

}  // namespace muster::agent
