// SPDX-License-Identifier: Apache-2.0
// From what the kernel, the worker's output, its status slot and its Python stack show of a worker to what
// its rank does: it moves, is busy, or waits for something. Pure.
#pragma once

#include "rendezvous/protocol/rank_health.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// The frames of a Python stack, the innermost first.
using Frames = std::vector<rendezvous::CodePlace>;

/// What the judgement needs of a process's Python stacks. Empty: not known.
struct StackSummary {
  Frames main{};
  bool main_holds_gil = false;
  /// The stack of another thread that holds the GIL; empty if there is none, or the version does not tell.
  Frames gil_holder{};
  /// The library in which the main thread sleeps ("libtorch_cpu.so"); empty: it runs, or nothing tells.
  std::string library{};
};

/// The system call in which a worker's main thread is, as far as it matters here.
enum class SystemCall {
  unknown,  ///< not known, or none of the others
  lock,     ///< futex
  sleep,    ///< nanosleep, or a select or poll without descriptors
  poll,     ///< poll or select
  events,   ///< epoll
  read,     ///< a read of some kind
  write,    ///< a write of some kind, or a wait until written data is safe
  child,    ///< a wait for a child process
};

/// What the descriptor of that call is.
enum class DescriptorKind { unknown, terminal, other };

/// What is seen of a worker at one moment. Counters count from the worker's start; those that cannot be read
/// stay 0.
struct WorkerSample {
  std::chrono::steady_clock::time_point at{};

  /// Bytes that the worker has printed through us.
  std::uint64_t output_bytes = 0;
  /// Bytes that it has read and written by system calls that are not for sockets, and those that came from
  /// or went to a disk.
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t disk_bytes = 0;
  /// CPU time of all its threads.
  std::chrono::milliseconds cpu{0};
  /// CPU time of its descendants, living ones and those that it has reaped.
  std::chrono::milliseconds helpers_cpu{0};
  /// Its living descendants, and those of them whose main thread waits for a lock.
  int helpers = 0;
  int helpers_in_lock = 0;
  /// Times at which its main thread went to sleep by itself.
  std::uint64_t voluntary_switches = 0;
  /// Bytes of memory that it has and has had at most.
  std::uint64_t memory = 0;
  std::uint64_t memory_peak = 0;

  /// The main thread as /proc/PID/stat has it: R, S, D, T, t; 0: not known.
  char state = 0;
  /// The kernel function in which it waits; empty: not known.
  std::string wait_channel{};
  SystemCall call = SystemCall::unknown;
  DescriptorKind descriptor = DescriptorKind::unknown;

  /// The status slot of a program that uses the SDK: a number that differs after each call, and the step.
  std::uint64_t slot_calls = 0;
  std::uint64_t slot_step = 0;
  /// The call that it is in by its slot; empty: none, or not known.
  std::string operation{};
  std::string group{};
  std::uint64_t sequence = 0;

  /// The collectives that it has launched by what NCCL tells (nullopt: nothing), and the one in which it is
  /// ahead of other ranks; empty: none. It may do something else meanwhile, as launches are asynchronous.
  std::optional<std::uint64_t> nccl_launched{};
  std::string nccl_operation{};
  std::string nccl_communicator{};
  std::uint64_t nccl_sequence = 0;

  /// How often its flight recorder has told something else than before while it stood still, and whether the
  /// recorder may have worked since the sample before, because it was asked.
  std::uint64_t flight_changes = 0;
  bool recorder_worked = false;

  /// The key of the store for which it waits, if the store has told, and the nearest one that is there.
  std::string store_key{};
  std::string nearest_key{};
};

/// Whether anything of the worker went forward between two samples.
bool has_moved(const WorkerSample& before, const WorkerSample& now);

/// Says what a worker does that has not moved since `first`, the first sample of its standstill; `before` is
/// the sample before `now`, and may be the same one. Round, rank and times are left as they are by default.
rendezvous::RankHealth judge_still(const WorkerSample& first, const WorkerSample& before,
                                   const WorkerSample& now, const StackSummary& stack);

/// The user's own line of a stack: the innermost frame outside of Python's library and installed packages, or
/// the innermost one if there is none. Control characters are replaced, long names cut.
rendezvous::CodePlace own_place(const Frames& frames);

/// The life of one worker as a series of samples. One thread.
class RankTracker {
 public:
  /// `tell_after`: a standstill that is shorter is told to nobody, so that a healthy training says nothing.
  /// `gap`: if samples are further apart than that, nobody has looked meanwhile (the host or its container
  /// slept), and the worker counts as having moved.
  RankTracker(int rank, rendezvous::RoundNumber round, std::chrono::milliseconds tell_after,
              std::chrono::milliseconds gap = kNoGap);

  /// A rank whose main thread has been in a sleep that no signal ends (state D) for so long is held by the
  /// kernel; a disk that answers does so sooner.
  static constexpr std::chrono::seconds kHeldAfter{5};

  static constexpr std::chrono::milliseconds kNoGap = std::chrono::hours(24 * 365);

  /// Takes the next sample. Returns whether the worker stands still, so that its stack is worth reading. What
  /// a worker that stands still has printed, read, written and computed while its flight recorder worked
  /// counts as the recorder's: if it moves, the next sample tells.
  bool add(WorkerSample sample);

  /// Whether the worker moved with the last sample.
  bool moves() const { return !first_still_; }

  /// Whether it has stood still for so long that its flight recorder is worth a question. Not after a sample
  /// that leaves out the recorder's work: a worker that moves would otherwise seem to stand still for as long
  /// as it is asked.
  bool may_ask_recorder() const;

  /// The last sample, to which a closer look at a worker that stands still adds before judge(). Only after an
  /// add().
  WorkerSample& last() { return *last_; }

  /// Judges the last sample with this stack, if the worker stands still. Call after each add().
  void judge(const StackSummary& stack);

  /// The next sample is of another process, with counters of its own.
  void change_process();

  /// The worker has ended with success.
  void end(std::chrono::steady_clock::time_point now);

  /// What the rank does, with times up to the last sample.
  rendezvous::RankHealth health() const;

  /// The same with times up to `now`.
  rendezvous::RankHealth health(std::chrono::steady_clock::time_point now) const;

  /// The same if it differs from what this call returned last; a rank that moves is told only after a
  /// standstill that was. A busy rank whose line changes is told at most each 10 s.
  std::optional<rendezvous::RankHealth> news();

 private:
  void leave_out_recorder(WorkerSample& sample);
  void hold(bool stands);
  void add_held(rendezvous::RankHealth& now);
  bool sleeps_on(const rendezvous::RankHealth& now, const StackSummary& stack) const;
  bool worth_telling(const rendezvous::RankHealth& now) const;

  std::chrono::milliseconds tell_after_;
  std::chrono::milliseconds gap_;
  /// The last sample, and the first one of the standstill.
  std::optional<WorkerSample> last_;
  std::optional<WorkerSample> before_;
  std::optional<WorkerSample> first_still_;
  /// Counters that hold what was left out of the samples so far.
  WorkerSample left_out_{};
  /// When something moved last, and since when the rank does what it does.
  std::chrono::steady_clock::time_point moved_at_{};
  std::chrono::steady_clock::time_point since_{};
  rendezvous::RankHealth health_;
  /// Since when no signal reaches it, as far as the samples tell, and the function that was found then.
  std::optional<std::chrono::steady_clock::time_point> held_since_;
  std::string held_in_;
  std::optional<rendezvous::RankHealth> told_;
  std::chrono::steady_clock::time_point told_at_{};
};

}  // namespace muster::agent
