// SPDX-License-Identifier: Apache-2.0
// Carries out what WorkerGroup decides for one round: spawns the workers, watches them, signals and kills.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/binding.hpp"
#include "agent/core/link_text.hpp"
#include "agent/core/memory_end.hpp"
#include "agent/core/node_event.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/worker_environment.hpp"
#include "agent/core/worker_group.hpp"
#include "agent/end_queue.hpp"
#include "agent/health_watch.hpp"
#include "agent/process/call_watch.hpp"
#include "agent/process/output/worker_output.hpp"
#include "agent/process/process_tree.hpp"
#include "agent/process/signal_state.hpp"
#include "agent/process/stop_file.hpp"
#include "agent/process/watchdog.hpp"
#include "agent/process/worker_stop.hpp"
#include "agent/round_words.hpp"
#include "agent/stacks/worker_pictures.hpp"
#include "rendezvous/protocol/message.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::agent {

/// The workers of one round. The process must be a subreaper, so that it adopts what workers leave behind;
/// all of its children belong to the round. Used from the executor's one thread. Destroy only after `over`
/// was called.
class RoundRunner {
 public:
  struct Events {
    /// Called once, when no process of the round is left.
    std::function<void()> over;
    /// Called with the first failure of the round here, before anything is stopped for it. May be empty.
    std::function<void(const rendezvous::FailRound&)> failed;
    /// Called with each RankHealth and RankPace that is worth telling the coordinator. May be empty.
    std::function<void(const rendezvous::Message&)> rank_news;
    /// Called with the end of each worker that had been started. May be empty.
    std::function<void(const NodeEvent&)> worker_ended;
    /// Returns the stdin of this local rank, or -1 for the usual one. May be empty; may throw as
    /// WorkerOutput::open does.
    std::function<int(int local_rank)> standard_input;
  };

  /// `spec`, `output`, `binding`, the CPUs of each worker, and `stop_file` outlive the runner.
  RoundRunner(const boost::asio::any_io_executor& executor, const AgentSpec& spec, WorkerOutput& output,
              const SignalState& signals, const BindingPlan& binding, StopFile& stop_file, Events events);

  /// Starts all workers, in rank order. A worker that cannot be executed fails the round like one that exits.
  void start(const rendezvous::RoundResult& place, int restarts, const Environment& inherited);

  /// Carry out orders, as WorkerGroup describes them. The reason is for the stop file; empty: there is none.
  void stop(int signal, const StopOrder& order);
  void kill();
  /// Tells the process groups of the workers that the terminal has a new size (SIGWINCH).
  void resize() const;

  /// Sends its workers signals that are no orders to end: WorkerStop::pass_notice_on() and signal_ranks().
  WorkerStop& worker_signals() { return stop_; }

  /// What is known of the ranks from outside, and who is told of the store's waits.
  HealthWatch& health() { return health_; }

  /// The following are valid once `over` was called.
  RoundOutcome outcome() const { return group_.outcome(); }

  /// Fills in what the report says of the round and its workers.
  void describe_round(NodeReport& report) const;

  /// Returns the failure that `failed` was told; its text is empty if no worker failed by itself.
  const rendezvous::FailRound& first_failure() const { return first_failure_; }

  /// Returns what the reports of the workers do not tell: that other processes were ended for memory.
  const std::string& memory_note() const { return memory_note_; }

  /// Returns a list of the processes that could not be killed; empty if there are none.
  std::string unkillable() const;

  const rendezvous::RoundResult& place() const { return place_; }

  WorkerNow worker_now(int local_rank) const;

 private:
  struct Worker {
    pid_t pid = -1;
    std::unique_ptr<boost::asio::posix::stream_descriptor> pidfd;
    WorkerStreams streams;
    std::string gpu;  ///< as in WorkerNow
    std::int64_t ended_at_ms = 0;
    /// Whether the worker has ended while the program below it may still print.
    bool output_goes_on = false;
    std::string start_error;
    std::int64_t cpu_limit_s = 0;
    /// Why a timer of PyTorch's watchdog ended this worker, as in WorkerReport; empty otherwise.
    std::string watchdog;
    std::chrono::steady_clock::time_point watchdog_at{};
    WorkerMemory memory;
  };

  std::vector<WorkerReport> reports() const;
  void start_worker(int local_rank, const rendezvous::RoundResult& place, int restarts,
                    const Environment& inherited);
  void tell_failure(int local_rank, const ExitStatus& status, const std::string& cause);
  void start_failed(int local_rank, int exit_code, const std::string& text);
  void watch(int local_rank);
  void on_exit(int local_rank);
  EndQueue::Events end_events();
  void judge(const std::vector<WorkerEnd>& ends);
  void judge_end(const WorkerEnd& end);
  void judge_memory(int local_rank, const ExitStatus& status);
  void watch_children();
  void apply(const GroupActions& actions);
  Orphans reap_orphans();
  void look_for_end();
  void watch_timers(const Environment& inherited);
  void timer_expired(const ExpiredTimer& timer);
  void look_before_kill(std::chrono::milliseconds at_most);
  bool alive(int local_rank) const;
  std::vector<WorkerStop::Worker> living() const;

  boost::asio::any_io_executor executor_;
  const AgentSpec& spec_;
  WorkerOutput& output_;
  SignalState signals_;
  const BindingPlan& binding_;
  StopFile& stop_file_;
  std::string stop_reason_;  ///< of the last order to end that had one
  Events events_;
  WorkerGroup group_;
  rendezvous::RoundResult place_;
  std::vector<Worker> workers_;
  boost::asio::steady_timer timer_;
  EndQueue ends_;
  boost::asio::signal_set children_;
  CallWatch calls_;
  HealthWatch health_;
  RoundMemory memory_;
  std::string memory_note_;
  std::unique_ptr<Watchdog> watchdog_;
  std::string watchdog_error_;  ///< why there is no watchdog although a program asked for one
  rendezvous::FailRound first_failure_;
  WorkerStop stop_;
  WorkerPictures pictures_;  ///< what the workers did that had to be killed
};

}  // namespace muster::agent
