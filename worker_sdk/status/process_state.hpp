// SPDX-License-Identifier: Apache-2.0
// Looks up what another process does.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::status {

/// The state of a process, as the kernel sees it.
enum class ProcessState : std::uint8_t { unknown, running, sleeping, in_kernel, stopped, gone };

/// The state for messages: "stopped (SIGSTOP or a debugger)".
std::string_view describe(ProcessState state);

struct ProcessLook {
  ProcessState state = ProcessState::unknown;
  /// The start time in clock ticks since boot, which together with the pid names a process for ever. 0 when
  /// unknown.
  std::uint64_t start_time = 0;
};

/// Looks at a process in /proc. A zombie counts as gone.
ProcessLook look_at(std::int32_t pid);

}  // namespace muster::status
