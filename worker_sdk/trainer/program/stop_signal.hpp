// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace muster::examples {

/// Makes SIGTERM set the flag that is returned, and nothing else. Where a scheduler signals every process of
/// a job and a launcher passes its own on, a process gets two, and the second must not cost the checkpoint.
/// SIGKILL ends a stop that takes too long. The flag is the program's: there is one.
const std::atomic<bool>& catch_stop_signal();

/// Ends the process as SIGTERM would have, so that whoever waits for it sees why.
[[noreturn]] void end_by_signal();

}  // namespace muster::examples
