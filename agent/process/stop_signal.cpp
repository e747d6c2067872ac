// SPDX-License-Identifier: Apache-2.0
#include "agent/process/stop_signal.hpp"

#include "agent/core/exit_status.hpp"

namespace muster::agent {

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
