// SPDX-License-Identifier: Apache-2.0
// Ends the processes of a round: who gets the stop signal, who of their helpers gets it later, who is killed
// first. When each of that happens is WorkerGroup's decision.
#pragma once

#include "agent/core/notices.hpp"
#include "agent/core/signal_route.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace muster::agent {

/// Acts on the processes below this one, which must be a subreaper and have no other children. Used from the
/// executor's one thread; destroy it after cancel() only.
class WorkerStop {
 public:
  struct Worker {
    int rank = 0;
    pid_t pid = 0;
  };

  /// `host` is for messages, `whole_groups` means the same as AgentSpec::stop_groups, `living` gives the
  /// workers that have not been reaped.
  WorkerStop(const boost::asio::any_io_executor& executor, std::string host, bool whole_groups,
             std::function<std::vector<Worker>()> living);

  /// Sends the stop signal: to each worker's own process and on from there (StopRoute), or to whole process
  /// groups. From then on looks every kLookInterval for processes that the signal reaches only now. A process
  /// that is stopped is continued, or it would not see the signal. `kill_at` is for the message about workers
  /// that take long.
  void signal(int signal, std::chrono::steady_clock::time_point kill_at);

  /// Sends SIGTERM to what the workers left running, after the last of them has ended, and names what takes
  /// long.
  void end_leftovers();

  /// Looks soon for processes that another one, which has ended, may have left; does nothing before a stop
  /// has begun.
  void look_soon();

  /// Sends SIGKILL to the living workers and to those that stand for one; their helpers stay. Returns whether
  /// there was any.
  bool kill_workers();

  /// Sends SIGKILL to everything below this process.
  void kill_all();

  /// Ends the search for processes, because none is left.
  void cancel();

  /// Sends a notice that ends nothing (SIGUSR1) to those processes of each worker that catch it, and names
  /// the workers of which none does, each once for each signal. Returns the ranks of the workers that got it.
  std::vector<int> pass_notice_on(int signal);

  /// Sends a signal, whatever it does to them, to the workers of these ranks: to those processes of each that
  /// catch it, as a notice, or else to its own process. Returns the ranks of those that got it.
  std::vector<int> signal_ranks(int signal, const std::vector<int>& ranks) const;

  /// Notes that an adopted process has ended: by itself, or of a signal.
  void reaped(pid_t pid, bool by_itself);

  /// Returns "pid name" of every process that workers left running and that was ended. A process that ignores
  /// SIGTERM and ends by itself within WorkerGroup::kHelperTime is not among them: so do helpers that clean
  /// up after their program.
  std::vector<std::string> leftovers() const;

  static constexpr std::chrono::milliseconds kLookInterval{100};

 private:
  struct Leftover {
    pid_t pid = 0;
    std::string text;
    bool ignores_term = false;
    std::chrono::steady_clock::time_point told_at;
  };

  void look_after(std::chrono::milliseconds time);
  void look();
  void send(const std::vector<StopRoute::Delivery>& deliveries);
  void add_leftover(const ProcessStat& process);
  static std::vector<int> deliver(int signal, const std::vector<Worker>& workers, bool to_handlers_only);
  void say_who_still_runs() const;
  void say_leftovers() const;

  std::string host_;
  bool whole_groups_;
  std::function<std::vector<Worker>()> living_;
  StopRoute route_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer notice_;
  boost::asio::steady_timer leftovers_notice_;
  /// Whether a stop has begun and nothing was killed yet.
  bool looking_ = false;
  std::chrono::steady_clock::time_point kill_at_{};
  std::vector<Leftover> leftovers_;
  UnheardNotices unheard_;
};

}  // namespace muster::agent
