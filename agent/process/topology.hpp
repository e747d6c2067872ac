// SPDX-License-Identifier: Apache-2.0
// Asks hwloc what this machine is made of.
#pragma once

#include "agent/core/binding.hpp"

#include <string>

namespace muster::agent {

struct TopologyResult {
  Topology topology;
  /// Why the topology could not be read, with what to do; empty if it could.
  std::string error;
};

/// Loads libhwloc.so.15 and asks it (HWLOC_SYNTHETIC and its kin work as everywhere); some milliseconds, so
/// only when binding was asked for. Only CPUs of our own affinity mask count, unless the topology is made up.
TopologyResult read_topology();

/// Returns a machine made up in hwloc's words, as in "package:2 numanode:1 l3cache:2 core:4 pu:2".
TopologyResult synthetic_topology(const std::string& description);

}  // namespace muster::agent
