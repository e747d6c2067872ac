// SPDX-License-Identifier: Apache-2.0
#include "agent/process/signal_state.hpp"

#include "agent/core/exit_status.hpp"

namespace muster::agent {

SignalState SignalState::capture() {
  SignalState state;
  sigemptyset(&state.ignored_);
  sigprocmask(SIG_SETMASK, nullptr, &state.mask_);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};

    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      sigaddset(&state.ignored_, signal);
  }
  rlimit core{};
  if (getrlimit(RLIMIT_CORE, &core) == 0) state.core_limit_ = core;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) state.file_limit_ = files;
  return state;
}

namespace {

constexpr int kSignalsOfOthers[] = {SIGPIPE,   SIGXFSZ, SIGUSR1, SIGUSR2, SIGALRM,
                                    SIGVTALRM, SIGPROF, SIGIO,   SIGPWR,  SIGXCPU};

}  // namespace

void SignalState::restore() const {
  sigset_t none;
  sigemptyset(&none);
  restore_except(none);
}

void SignalState::restore_for_ours() const {
  sigset_t kept;
  sigemptyset(&kept);
  for (const int signal : kSignalsOfOthers) sigaddset(&kept, signal);
  restore_except(kept);
}

void SignalState::restore_except(const sigset_t& kept) const {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};

    if (sigaction(signal, nullptr, &action) != 0) continue;
    const bool ignore = ignored(signal) || sigismember(&kept, signal) == 1;
    const auto wanted = ignore ? SIG_IGN : SIG_DFL;
    if (action.sa_handler == wanted) continue;
    action = {};
    action.sa_handler = wanted;
    sigaction(signal, &action, nullptr);
  }
  if (core_limit_) setrlimit(RLIMIT_CORE, &*core_limit_);
  if (file_limit_) setrlimit(RLIMIT_NOFILE, &*file_limit_);
  sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

void ignore_signals_of_others() {
  for (const int signal : kSignalsOfOthers) ::signal(signal, SIG_IGN);
}

int passed_on(int signal) {
  return SIGRTMIN + signal;
}

std::vector<int> stop_signals_of_agent(const SignalState& at_start) {
  std::vector<int> signals;
  for (const int signal : kStopSignals) {
    if (at_start.ignored(signal)) continue;
    signals.push_back(signal);
    signals.push_back(passed_on(signal));
  }
  return signals;
}

StopSignal stop_signal(int received) {
  for (const int signal : kStopSignals)
    if (received == passed_on(signal)) return {signal, true};
  return {received, false};
}

std::string describe(const StopSignal& told, const std::string& node) {
  return std::string("the ") + (told.to_guardian ? "guardian" : "agent") + " process of " + node +
         " was told to stop by " + signal_name(told.number);
}

}  // namespace muster::agent
