// SPDX-License-Identifier: Apache-2.0
// What an agent says of its node and workers while the job runs, when somebody asks. Pure.
#pragma once

#include "agent/core/host_causes.hpp"
#include "agent/stacks/core/process_stacks.hpp"
#include "rendezvous/protocol/rank_health.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::agent {

/// The question.
struct NodeQuery {
  /// Whether the Python stacks of the workers are wanted.
  bool stacks = false;
  /// Whether those of the Python programs below the workers are wanted, too.
  bool helpers = false;
  /// Whether the stacks of machine code are wanted beside them; each thread is stopped for a moment then.
  bool native = false;
  /// The workers that are wanted, by their ranks in the job; none: all.
  std::vector<int> ranks;
  /// The signal that they get before the answer; 0: none. A notice goes to what of every worker handles it;
  /// any other signal to what handles it, or else to the worker's own process.
  int signal = 0;
  bool notice = false;
};

struct WorkerStatus {
  int rank = 0;
  int local_rank = 0;
  /// 0: never started.
  int pid = 0;
  /// "running", "stopped by a signal or a debugger", "ended (exit code 0)", "not started".
  std::string state;
  /// CPU time of the process that runs the program (the worker's own, or the one below a shell) without its
  /// children, in milliseconds, and the memory that it has and has had at most, in bytes. 0: not known.
  std::int64_t cpu_ms = 0;
  std::uint64_t memory = 0;
  std::uint64_t memory_peak = 0;
  /// What the rank does as its agent sees it from outside, in the words of the verdict on a hang: "moves",
  /// "waits for all_reduce since 12 s". Empty: it has ended, or nothing is watched (--hang-timeout 0); the
  /// next five mean nothing then.
  std::string does;
  rendezvous::Activity activity = rendezvous::Activity::moves;
  /// Only with Activity::waits.
  rendezvous::WaitKind wait = rendezvous::WaitKind::unknown;
  /// Milliseconds since it does this, and since anything of it has moved.
  std::int64_t since_ms = 0;
  std::int64_t still_ms = 0;
  /// The user's own line: "train.py:41 in load". Empty: it moves, or the line is not known.
  std::string place;
  /// The kernel function in which no signal reaches it; empty: signals do.
  std::string held_in;
  /// Milliseconds since it has printed something; -1: nothing so far, or not through us.
  std::int64_t output_ms = -1;
  /// CUDA_VISIBLE_DEVICES as the worker got it; empty: it is not set.
  std::string gpu;
  /// The step that the program has told (muster_set_step); 0: none.
  std::uint64_t step = 0;
  /// The call of a program that uses the SDK: "in all_reduce #12 (4.0 kB) of group 'world' since 4.2 s".
  /// Empty for others.
  std::string now;
  /// Whether it got the signal that came with the question.
  bool signalled = false;
  /// If stacks were asked for: its process, or the Python programs below it where its own is none.
  std::vector<ProcessPicture> processes;
};

/// A verdict on a hang that has not been taken back.
struct StandingHang {
  rendezvous::HangLevel level = rendezvous::HangLevel::none;
  /// As it was said, with times as of then.
  std::string text;
  /// Milliseconds since then.
  std::int64_t said_ms = 0;
  /// The ranks that it names as the cause, in order, at most rendezvous::kMaxCulprits; none: all agree.
  std::vector<int> culprits{};
};

/// A round that another one has followed.
struct EndedRound {
  int round = 0;
  /// Why it ended, and what was decided then: "rank 3 on n1 failed (exit code 1)", "restarting all workers in
  /// 2 s (restart 2 of 5)".
  std::string cause;
  std::string decision;
};

struct NodeStatus {
  std::string host;
  /// The node's name in the job; empty in a job of one node.
  std::string node;
  int node_rank = 0;
  /// The agent's process; 0: there is none yet, or any more.
  int pid = 0;
  /// -1: it has been in none.
  int round = -1;
  int restarts = 0;
  /// "works", "waits for a round", "stops its workers".
  std::string doing;
  /// What the coordinator has told this node: the verdict that stands, of level none if there is none, and
  /// why there were restarts, the last kEndedRoundsMax.
  StandingHang hang;
  /// Which ranks are slow, as the coordinator said it last; empty: none.
  std::string slow;
  /// What is wrong on this host.
  std::vector<HostCause> host_causes;
  std::vector<EndedRound> ended_rounds;
  std::vector<WorkerStatus> workers;
};

/// The largest number of a signal (signal(7)).
inline constexpr int kSignalMost = 64;

/// How long whoever asks waits for the answer of a node.
inline constexpr std::chrono::seconds kNodeAnswersWithin{3};
/// Most bytes of a question and of an answer, and of the stacks in it: a link keeps what was not
/// acknowledged, which is also output and a report.
inline constexpr std::size_t kNodeQueryMax = std::size_t{512} << 10;
inline constexpr std::size_t kNodeStatusMax = std::size_t{2} << 20;
inline constexpr std::size_t kNodeStacksMax = kNodeStatusMax / 2;
inline constexpr std::size_t kNodeNativeMax = kNodeStatusMax / 4;
inline constexpr std::size_t kEndedRoundsMax = 16;
/// Most bytes of a text about a round's end, and of CUDA_VISIBLE_DEVICES.
inline constexpr std::size_t kStatusTextMax = 1000;
inline constexpr std::size_t kStatusGpuMax = 200;

/// Adds what to do to each "there was no time for it": to ask for fewer of these workers, or again.
void advise_where_late(std::vector<WorkerStatus>& workers);

/// Write as JSON text, and read it. Reading throws std::invalid_argument for anything else, for ranks and
/// signals that there are not, and for more workers than a node may have or more rounds than kEndedRoundsMax.
std::string to_json(const NodeQuery& query);
NodeQuery node_query_from_json(const std::string& text);
std::string to_json(const NodeStatus& status);
NodeStatus node_status_from_json(const std::string& text);

/// Writes a status in at most `most` bytes: a longer one goes without stacks, and if that is not enough
/// without workers; `doing` says so then.
std::string to_json_within(const NodeStatus& status, std::size_t most);

}  // namespace muster::agent
