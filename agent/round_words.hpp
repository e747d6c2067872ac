// SPDX-License-Identifier: Apache-2.0
// What a round tells others of its workers: of the first failure at once, of each worker in the report, and
// of their present state to whoever asks.
#pragma once

#include "agent/core/end_order.hpp"
#include "agent/core/exit_status.hpp"
#include "agent/core/node_event.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/worker_group.hpp"
#include "rendezvous/protocol/message.hpp"
#include "worker_sdk/status/status_reader.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <system_error>

namespace muster::agent {

/// A worker while somebody looks at the job.
struct WorkerNow {
  int rank = 0;
  /// -1: never started.
  pid_t pid = -1;
  /// Whether it has not been reaped, so that nobody else can have its number.
  bool lives = false;
  /// How it ended, once that has been judged.
  std::optional<ExitStatus> status{};
  /// What its status file shows; nullopt if it does not use the SDK.
  std::optional<status::RankStatus> slot{};
  /// What its rank does as seen from outside; nullopt if it has ended, or nothing is watched.
  std::optional<rendezvous::RankHealth> health{};
  /// When it has printed something last; nullopt: nothing so far, or not through us.
  std::optional<std::chrono::steady_clock::time_point> last_output{};
  /// CUDA_VISIBLE_DEVICES as it was started with; empty: not set.
  std::string gpu{};
};

/// Returns the failure of a worker as the coordinator is told of it; `error_line` and `stepped` are left.
rendezvous::FailRound failure_of(const rendezvous::RoundResult& place, const std::string& host,
                                 int local_rank, const ExitStatus& status, const std::string& cause);

/// Returns the end of a worker as the launcher is told of it. `stopped`: it had been told to stop; `memory`:
/// what memory had to do with its end, or "".
NodeEvent end_event(const rendezvous::RoundResult& place, const WorkerEnd& end, pid_t pid, bool stopped,
                    const std::string& memory);

/// Why a worker could not be started, and the exit code for that.
struct NotStarted {
  int exit_code = 0;
  std::string text;
};

/// Tells a program that cannot be executed, and why as far as its file tells, from a lack of descriptors,
/// processes or memory. `path` is where it was found, perhaps ""; `on_host` is "" or " on n2".
NotStarted why_not_started(const std::system_error& error, const std::string& program,
                           const std::string& path, const std::string& on_host);

NodeOutcome node_outcome(RoundOutcome outcome);

/// Returns what a worker wrote into its error file; empty if it wrote none.
std::string read_error_file(const std::string& path);

/// Adds to a report what the worker wrote into its error file, the last `most` bytes.
void add_error(WorkerReport& report, const std::string& path, std::size_t most);

/// Returns what of a text's bytes each of so many workers may take.
std::size_t share_of(std::size_t bytes, std::size_t workers);

}  // namespace muster::agent
