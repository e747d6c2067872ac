// SPDX-License-Identifier: Apache-2.0
// Reads the facts of this host.
#pragma once

#include "agent/process/signal_state.hpp"
#include "launcher/doctor/core/host_facts.hpp"

#include <string>

namespace muster::launcher {

struct HostQuestion {
  /// The interpreter; empty: PYTHON_EXEC, else that of our virtual environment, else python3.
  std::string python;
  /// The host on the way to which the network interface is looked for; empty: by the default route.
  std::string towards;
  /// Of muster.
  std::string version;
};

/// Looks at this host. Changes nothing, except that folders of jobs whose launcher is gone are removed, as
/// every look at jobs does. What cannot be read is said in the facts. Takes as long as the interpreter and
/// the name server need: seconds at most.
HostFacts read_host(const HostQuestion& question, const agent::SignalState& signals);

}  // namespace muster::launcher
