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

void SignalState::restore() const {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};

    if (sigaction(signal, nullptr, &action) != 0) continue;
    const auto wanted = ignored(signal) ? SIG_IGN : SIG_DFL;
    if (action.sa_handler == wanted) continue;
    action = {};
    action.sa_handler = wanted;
    sigaction(signal, &action, nullptr);
  }
  if (core_limit_) setrlimit(RLIMIT_CORE, &*core_limit_);
  if (file_limit_) setrlimit(RLIMIT_NOFILE, &*file_limit_);
  sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

void ignore_write_signals() {
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
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
