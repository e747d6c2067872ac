// SPDX-License-Identifier: Apache-2.0
// What an agent tells the launcher when its node has ended.
#pragma once

#include "agent/core/exit_status.hpp"
#include "agent/core/flight_record.hpp"
#include "agent/core/host_causes.hpp"
#include "agent/stacks/core/hang_stacks.hpp"
#include "agent/stacks/core/process_stacks.hpp"
#include "rendezvous/protocol/rank_health.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::agent {

/// How a worker of the last round ended, as seen by its agent.
enum class WorkerOutcome {
  succeeded,         ///< exit code 0
  failed_by_itself,  ///< another exit code, or a signal that we did not send
  stopped_by_us,     ///< the worker ended after our stop signal, by it or with any code
  not_started,       ///< the program could not be executed
};

/// What a worker left in its error file (torchrun contract 3.5). Empty strings when there is none.
struct WorkerError {
  std::string message;
  std::string traceback;
  /// Whole seconds since 1970, as the worker wrote it; 0 if it did not.
  std::int64_t timestamp_s = 0;
};

/// What a worker that uses the SDK was doing when the round began to end: when its first worker failed, or
/// the order to stop came. All empty for other programs.
struct WorkerCall {
  /// What the worker was doing, for people: "in all_reduce #12 (4.0 kB) of group 'world' since 4.2 s".
  std::string text;
  /// The worker's state: "joining", "idle", "in_call", "failed"; "ended" after its world has ended; empty: it
  /// had none.
  std::string state;
  std::string group;
  /// The call that the worker was in, or made last: "all_reduce".
  std::string name;
  std::uint64_t sequence = 0;
  /// Sequence of the last call that the worker completed in this group.
  std::uint64_t completed = 0;
  std::int64_t for_ms = 0;
  /// The step that the program has told (muster_set_step); 0: none.
  std::uint64_t step = 0;
  /// What the kernel said of the process: "sleeping", "stopped by a signal or a debugger", "dead".
  std::string process;
  /// The last calls, oldest first; only of workers that failed or that others waited for.
  std::vector<std::string> recent;
};

struct WorkerReport {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;
  std::string host;
  WorkerOutcome outcome = WorkerOutcome::succeeded;
  ExitStatus status;
  /// The signal by which we had told the worker to stop before it ended; 0: none.
  int stop_signal = 0;
  /// Place in the order of exits as they arrived at this agent, from 1; 0: never started.
  int arrival = 0;
  /// When the exit was seen: milliseconds since 1970, for people only.
  std::int64_t ended_at_ms = 0;
  /// Path of the error file if the worker wrote one, else empty.
  std::string error_file;
  WorkerError error;
  /// The last lines that passed through us, oldest first, without line ends; empty if the worker's streams
  /// were not ours.
  std::vector<std::string> last_lines;
  /// Log files of the worker's streams; empty where not redirected or teed.
  std::string stdout_log;
  std::string stderr_log;
  /// Why the program could not be executed; empty otherwise.
  std::string start_error;
  WorkerCall call;
  /// The limit of CPU time, in seconds, that the worker had used up when the kernel ended it for that; 0:
  /// another end.
  std::int64_t cpu_limit_s = 0;
  /// The timer of PyTorch's watchdog that ended the worker or a process of its own: "the watchdog timer ...
  /// expired after 2.0 s"; empty otherwise.
  std::string watchdog;
  /// What memory had to do with the worker's end: "over the memory limit of 512 MiB of cgroup '/docker/4f1c'
  /// (peak 512 MiB)"; empty: nothing, or the kernel does not tell.
  std::string memory;
  /// Whether the kernel tells of processes that are ended for memory, and this worker was not among them.
  bool memory_ruled_out = false;
  /// What the worker did just before we killed it, because it had not ended by itself: its own process, or
  /// the Python programs below it where its own is none. Empty: it was not killed by us, or could not be
  /// looked at.
  std::vector<ProcessPicture> before_kill;
};

/// Whether a worker was told to stop, and ended neither well nor by that signal: its code is an answer of its
/// own.
bool answered_by_own_code(const WorkerReport& worker);

/// Returns how a worker ended: "killed by SIGKILL: the watchdog timer ...", "exit code 5 after our SIGTERM".
std::string describe(const WorkerReport& worker);

enum class NodeOutcome {
  succeeded,    ///< every worker exited 0
  failed,       ///< a worker failed and no restart was left
  stopped,      ///< the launcher ordered it (signal, deadline)
  agent_error,  ///< something of ours failed: `error` says what
};

/// Why a round ended on a node that had not failed itself: what the coordinator said of the failure
/// elsewhere.
struct EndedBy {
  /// Name of the node; empty: this node's own failure, or none, ended the round.
  std::string node;
  std::string host;
  int rank = -1;
  int exit_code = 0;
  std::string text;
  /// Whether no failure ended the round, but a hang (--on-hang), which is no one node's: `node` is empty.
  bool hung = false;
};

/// What the coordinator decided at the end of a round, the same for every node of it.
struct RestartDecision {
  int round = 0;
  /// Why the round ended: "rank 3 on n1 failed (exit code 1)".
  std::string cause;
  /// "restarting all workers in 2 s (restart 2 of 5)", "no restart: exit code 127 ...".
  std::string decision;
  /// Whether another round follows.
  bool again = false;
  /// Number of restarts that are used up, the coming one included.
  int restarts = 0;
  /// Time from the end of the round to the beginning of the next.
  std::int64_t delay_ms = 0;
  /// Whether the job ended for this decision: then the coordinator's verdict says it with the cause.
  bool is_cause = false;
};

/// What was said of a job whose ranks stood still when it began to end.
struct HangReport {
  rendezvous::HangLevel level = rendezvous::HangLevel::none;
  /// "rank 3 on n1 (train.py:41 in load) is hung: ...", with times as of when it was said; empty: none was.
  std::string text;
  /// How long before the end it was said, and taken back because a rank moved again; -1: it was not.
  std::int64_t said_ms = 0;
  std::int64_t moved_ms = -1;
  /// Where the ranks of the node were then, as far as their stacks had been looked at; in the report of a job
  /// those of all nodes.
  std::vector<HangStack> stacks{};
};

/// Most decisions that a node reports, the last ones.
inline constexpr std::size_t kDecisionsKept = 16;

struct NodeReport {
  std::string host;
  /// The node's name in the job; empty in a job of one node.
  std::string node;
  EndedBy ended_by;
  int node_rank = 0;
  int round = 0;
  int restarts = 0;
  int max_restarts = 0;
  /// Decisions at the ends of the rounds that this node took part in, the oldest first.
  std::vector<RestartDecision> decisions;
  NodeOutcome outcome = NodeOutcome::succeeded;
  /// agent_error: what failed. stopped: which of our processes was sent a signal by somebody who is not of
  /// the job; empty if the launcher ordered the stop.
  std::string error;
  /// agent_error: whether `error` is the coordinator's verdict on the job, not what failed on this node.
  bool error_is_verdict = false;
  std::vector<WorkerReport> workers;
  /// Who waited for whom when the round began to end, one sentence each, longest waits first.
  std::vector<std::string> calls;
  /// The verdict on the whole job, the same for each node of the last round.
  HangReport hang;
  /// Which ranks were slow when the round ended, the same for each node; empty: none.
  std::string slow;
  /// What was wrong on this host when the round began to end.
  std::vector<HostCause> host_causes;
  /// What NCCL's flight recorder had noted of the node's ranks, of a round that was no success.
  std::vector<FlightRank> flight_records;
  /// Processes that workers had left running and that we ended, as "pid name" texts.
  std::vector<std::string> leftovers;
  /// Things the user should know: truncated logs, dropped output.
  std::vector<std::string> notes;
};

/// Write a report as JSON text, and read it, as agent_spec.hpp does for a spec.
std::string to_json(const NodeReport& report);
/// Writes a report in at most `most` bytes. A longer one goes without what its workers said and did last, and
/// a note says so; if that is not enough, all that it says is that it is too long (agent_error).
std::string to_json_within(const NodeReport& report, std::size_t most);
std::string to_json(const std::vector<RestartDecision>& decisions);
std::string to_json(const HangReport& hang);
NodeReport node_report_from_json(const std::string& text);

/// Most bytes of a verdict, in which a node of many workers has all its ranks.
inline constexpr std::size_t kHangReportMax = std::size_t{1} << 20;
/// Reads what to_json() has written; throws std::invalid_argument for anything else, and for more stacks, or
/// lines of one, than hang_stacks() makes.
HangReport hang_report_from_json(const std::string& text);

}  // namespace muster::agent
