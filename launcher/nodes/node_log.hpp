// SPDX-License-Identifier: Apache-2.0
// Writes what nodes say into our own log, and not more than anybody reads.
#pragma once

#include "launcher/core/job_spec.hpp"
#include "launcher/nodes/core/node_words.hpp"

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace muster::launcher {

/// Nodes are places in JobSpec::nodes. Used from one thread.
class NodeLog {
 public:
  /// `job` outlives the object.
  explicit NodeLog(const JobSpec& job) : job_(job), limits_(job.nodes.size()) {}

  /// Writes a node's line, if the node has not said too much already (LineLimit).
  void line(std::size_t node, const std::string& text);

  /// Says how many lines of the node were left out, if that is to be told now.
  void tell_left_out(std::size_t node, bool at_the_end);

  /// Says that the process here that leads to the node is stopped.
  void client_stopped(std::size_t node, pid_t pid) const;

 private:
  const JobSpec& job_;
  std::vector<LineLimit> limits_;
};

}  // namespace muster::launcher
