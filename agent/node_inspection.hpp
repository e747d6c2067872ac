// SPDX-License-Identifier: Apache-2.0
// Answers those who look at a running job, for this node.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/node_life.hpp"
#include "agent/core/node_status.hpp"
#include "agent/core/node_verdict.hpp"
#include "agent/job_health.hpp"
#include "agent/stacks/native_look.hpp"
#include "agent/stacks/worker_pictures.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace muster::agent {

class RoundRunner;

/// Used from the executor's one thread. It sends no process a signal, and stops none but where stacks of
/// machine code are asked for.
class NodeInspection {
 public:
  explicit NodeInspection(const boost::asio::any_io_executor& executor) : look_again_(executor) {}

  /// What the node knows of itself and of the job.
  struct Node {
    const AgentSpec& spec;
    const NodeLife& life;
    const NodeVerdict& verdict;
    const JobHealth& health;
    /// Null before the first round.
    const RoundRunner* runner = nullptr;
  };

  /// Tells `done` what the node and its workers do now; `signalled`: the ranks that got the signal of the
  /// query. Where stacks are asked for, this thread waits for them, for WorkerPictures::kWhenAsked at most.
  /// Those of machine code come later, within kNativeAtMost, and `done` is not called if this object ends
  /// before.
  void answer(const Node& node, const NodeQuery& query, const std::vector<int>& signalled,
              std::function<void(const NodeStatus&)> done);

  /// Together with the other stacks it is less than whoever asks waits (kNodeAnswersWithin).
  static constexpr std::chrono::milliseconds kNativeAtMost{2000};

 private:
  /// Somebody who waits for the stacks of machine code.
  struct Asked {
    NodeStatus status;
    std::function<void(const NodeStatus&)> done;
  };

  NodeStatus status(const Node& node, const NodeQuery& query);
  void look_at_native(Asked asked);
  void wait_for_native(std::shared_ptr<Asked> asked);
  void add_stacks(std::vector<WorkerStatus>& workers, const RoundRunner& runner, const NodeQuery& query);

  /// Kept between questions, so that a process which the kernel holds up holds one thread and not many.
  WorkerPictures pictures_;
  NativeLook native_;
  /// Whether somebody waits for `native_`.
  bool native_asked_ = false;
  boost::asio::steady_timer look_again_;
};

}  // namespace muster::agent
