// SPDX-License-Identifier: Apache-2.0
// Tells people what the coordinator says of the job: what a round waits for, why the next one begins, which
// rank hangs.
#pragma once

#include "agent/coordinator_dial.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/node_traits.hpp"
#include "agent/node_link.hpp"
#include "agent/round_events.hpp"
#include "rendezvous/protocol/message.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <string>
#include <vector>

namespace muster::agent {

/// Each piece of news is told once for the job: by the node that hosts the coordinator of a distant launcher,
/// or by every node that has a launcher of its own. One thread, the executor's.
class JobNews {
 public:
  /// All but the executor outlive the object.
  JobNews(const boost::asio::any_io_executor& executor, const NodeTraits& traits, NodeLink& link,
          CoordinatorDial& dial)
      : traits_(traits), link_(link), dial_(dial), events_(executor, traits, link) {}

  void status(const rendezvous::Status& status);
  /// A round is over; `again`: another one follows.
  void round_ended(const rendezvous::RoundEnd& end, bool again);

  /// A verdict on a hang, or that it is taken back. A node of a distant launcher passes a verdict on with the
  /// stacks of its own ranks, as every other node does, and the launcher says it once.
  void notice(const rendezvous::JobNotice& notice, std::vector<HangStack> stacks);

  /// A line that people are to read.
  void say(std::string text);

  /// What else the launcher is told of rounds and workers.
  RoundEvents& events() { return events_; }

 private:
  void hang(const HangReport& hang);

  const NodeTraits& traits_;
  NodeLink& link_;
  CoordinatorDial& dial_;
  RoundEvents events_;
};

}  // namespace muster::agent
