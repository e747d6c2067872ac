// SPDX-License-Identifier: Apache-2.0
// Answers those who look at a running job, for this node.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/node_life.hpp"
#include "agent/core/node_status.hpp"
#include "agent/core/node_verdict.hpp"
#include "agent/job_health.hpp"
#include "agent/stacks/worker_pictures.hpp"

#include <vector>

namespace muster::agent {

class RoundRunner;

/// Used from one thread. It stops no process, and sends none a signal.
class NodeInspection {
 public:
  /// What the node knows of itself and of the job.
  struct Node {
    const AgentSpec& spec;
    const NodeLife& life;
    const NodeVerdict& verdict;
    const JobHealth& health;
    /// Null before the first round.
    const RoundRunner* runner = nullptr;
  };

  /// Returns what the node and its workers do now. Where stacks are asked for, this thread waits for them,
  /// for WorkerPictures::kWhenAsked at most.
  NodeStatus answer(const Node& node, const NodeQuery& query);

 private:
  void add_stacks(std::vector<WorkerStatus>& workers, const RoundRunner& runner, bool helpers);

  /// Kept between questions, so that a process which the kernel holds up holds one thread and not many.
  WorkerPictures pictures_;
};

}  // namespace muster::agent
