// SPDX-License-Identifier: Apache-2.0
// The signals that end a node, and which of its processes was sent one.
#pragma once

#include "agent/process/signal_state.hpp"

#include <string>
#include <vector>

namespace muster::agent {

inline constexpr int kStopSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

/// The signal that the guardian sends to the agent when it gets a stop signal itself, so that the agent can
/// say whom somebody told to stop: a real-time signal, which nothing else sends.
int passed_on(int signal);

/// Everything that tells an agent to stop: kStopSignals but those that were ignored when we were started, and
/// what the guardian makes of them.
std::vector<int> stop_signals_of_agent(const SignalState& at_start);

struct StopSignal {
  /// One of kStopSignals.
  int number = 0;
  bool to_guardian = false;
};

/// Reads a signal that an agent was sent. One that the guardian did not pass on comes back as it is.
StopSignal stop_signal(int received);

/// "the guardian process of n02 was told to stop by SIGHUP".
std::string describe(const StopSignal& told, const std::string& node);

/// Follows such a text and says what to do instead.
inline constexpr const char* kHowToEndAJob = "; to end a job, signal its 'muster run'";

}  // namespace muster::agent
