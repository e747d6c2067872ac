// SPDX-License-Identifier: Apache-2.0
// Keeps how signals and limits were set when we were started, so that workers start with the same.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// Signal mask, ignored signals and two limits at the start of this process: on core dumps (we ourselves
/// leave none where we hold keys) and on open files (we raise ours). Value type.
class SignalState {
 public:
  /// Reads the present state. Call before anything changes it.
  static SignalState capture();

  bool ignored(int signal) const { return sigismember(&ignored_, signal) == 1; }

  /// Forgets that a signal was ignored: workers get its default disposition.
  void unignore(int signal) { sigdelset(&ignored_, signal); }

  /// Has workers start with a signal ignored.
  void ignore(int signal) { sigaddset(&ignored_, signal); }

  /// Restores signals and limits: every signal gets its default except those that were ignored.
  /// Async-signal-safe, because it is called between fork and exec.
  void restore() const;

  /// Does the same as restore() for a process of ours: what ignore_signals_of_others() ignores stays ignored,
  /// without a moment in between.
  void restore_for_ours() const;

 private:
  void restore_except(const sigset_t& kept) const;

  sigset_t mask_{};
  sigset_t ignored_{};
  std::optional<rlimit> core_limit_;
  std::optional<rlimit> file_limit_;
};

/// Ignores what must not end a process of ours: a write to a pipe that nobody reads (SIGPIPE), or beyond the
/// limit of file sizes (SIGXFSZ), is an error of that write; and what a batch system may send to every
/// process of a step as a notice to its program (SIGUSR1, SIGUSR2, SIGXCPU, timers) is none of our business.
void ignore_signals_of_others();

inline constexpr int kStopSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

/// Returns the signal that the guardian sends to the agent when it gets a stop signal itself, so that the
/// agent can say whom somebody told to stop: a real-time signal, which nothing else sends.
int passed_on(int signal);

/// Returns everything that tells an agent to stop: kStopSignals but those that were ignored when we were
/// started, and the signals that the guardian sends instead of them.
std::vector<int> stop_signals_of_agent(const SignalState& at_start);

struct StopSignal {
  /// The stop signal, one of kStopSignals.
  int number = 0;
  bool to_guardian = false;
};

/// Reads a signal that an agent was sent. One that the guardian did not pass on comes back as it is.
StopSignal stop_signal(int received);

/// Returns a text such as "the guardian process of n02 was told to stop by SIGHUP".
std::string describe(const StopSignal& told, const std::string& node);

}  // namespace muster::agent
