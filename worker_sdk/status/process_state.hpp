// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::status {

/// What a process does, as the kernel sees it.
enum class ProcessState : std::uint8_t { unknown, running, sleeping, in_kernel, stopped, gone };

/// "stopped (SIGSTOP or a debugger)"; for messages.
std::string_view describe(ProcessState state);

struct ProcessLook {
  ProcessState state = ProcessState::unknown;
  /// In clock ticks since boot: with the pid it names a process for ever. 0 when unknown.
  std::uint64_t start_time = 0;
};

/// Reads /proc. A zombie is gone.
ProcessLook look_at(std::int32_t pid);

}  // namespace muster::status
