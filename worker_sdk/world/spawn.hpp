// SPDX-License-Identifier: Apache-2.0
// Starts the ranks of a world from one program, as processes of this host.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace muster {

struct SpawnOptions {
  /// The time for all ranks to end. Default: no bound; the ranks' own calls have deadlines.
  std::optional<std::chrono::milliseconds> deadline;
  /// The time between SIGTERM and SIGKILL for the other ranks after a failure. Default: 5 seconds.
  std::chrono::milliseconds grace = std::chrono::seconds(5);
};

/// The first failure. Plain data.
struct SpawnFailure {
  int rank = -1;      ///< the rank; -1: no rank failed, the deadline passed
  int exit_code = 0;  ///< exit code of the rank's process, or 128 + signal
  int signal = 0;     ///< signal that ended it, or 0
  std::string text;   ///< text of the exception that ended the rank; "" if there was none
};

/// The failure as a whole sentence: "rank 2 of 4 (process 123) threw: ...".
std::string describe(const SpawnFailure& failure, int size);

/// Forks `size` processes, runs `body(rank, size)` in each, whose result is the exit code of the process, and
/// waits for them. World::init() with default options in a rank joins the others, over a store on loopback
/// that lives as long as the call. The first rank that fails ends the rest. Processes that the ranks have
/// started end with them, and the ranks end with this process, however it ends. Throws Error: state when this
/// process has threads (a lock that another thread holds would stay locked in the fork, and devices do not
/// survive it), invalid_argument, or io when processes cannot be made.
std::optional<SpawnFailure> try_spawn(const std::function<int(int rank, int size)>& body, int size,
                                      const SpawnOptions& options = {});

}  // namespace muster
