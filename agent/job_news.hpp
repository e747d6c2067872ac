// SPDX-License-Identifier: Apache-2.0
// Tells people what the coordinator says of the job: what a round waits for, why the next one begins, which
// rank hangs.
#pragma once

#include "agent/coordinator_dial.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/node_traits.hpp"
#include "agent/node_link.hpp"
#include "rendezvous/protocol/message.hpp"

#include <string>

namespace muster::agent {

/// Each piece of news is told once for the job: by the node that hosts the coordinator of a distant launcher,
/// or by every node that has a launcher of its own. One thread, the executor's.
class JobNews {
 public:
  /// All three outlive the object.
  JobNews(const NodeTraits& traits, NodeLink& link, CoordinatorDial& dial)
      : traits_(traits), link_(link), dial_(dial) {}

  void status(const rendezvous::Status& status);
  void restart(const rendezvous::RoundEnd& end);
  void say(std::string text);

  /// A verdict on a hang. A node of a distant launcher passes it on with the stacks of its own ranks, as
  /// every other node does, and the launcher says it once.
  void hang(const HangReport& hang);

 private:
  const NodeTraits& traits_;
  NodeLink& link_;
  CoordinatorDial& dial_;
};

}  // namespace muster::agent
