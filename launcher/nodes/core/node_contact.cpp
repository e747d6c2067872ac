// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_contact.hpp"

#include "launcher/core/job_orders.hpp"
#include "rendezvous/base/invariant.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <utility>

namespace muster::launcher {

bool NodeContact::take_hello() {
  if (progress_ != Progress::none) return false;
  progress_ = Progress::greeted;
  return true;
}

bool NodeContact::take_listening() {
  return coordinator_ && !std::exchange(listening_, true);
}

bool NodeContact::take_report() {
  if (progress_ == Progress::reported) return false;
  MUSTER_ASSERT(instructed(), "only a node that has its part of the job has a link that carries reports");
  progress_ = Progress::reported;
  return true;
}

bool NodeContact::misbehave() {
  agent_gone_ = true;
  open_ = false;
  return !std::exchange(broken_, true);
}

void NodeContact::instruct(bool coordinator) {
  MUSTER_ASSERT(progress_ == Progress::greeted, "a node is told its part once, after its hello");
  progress_ = Progress::instructed;
  coordinator_ = coordinator;
}

void NodeContact::open() {
  MUSTER_ASSERT(way_ == Way::none, "a node greets once");
  way_ = Way::direct;
  open_ = true;
}

void NodeContact::relay() {
  MUSTER_ASSERT(way_ == Way::direct && instructed(), "the direct way to an instructed node is replaced once");
  way_ = Way::relay;
  open_ = true;
}

void NodeContact::relay_carries() {
  MUSTER_ASSERT(relayed(), "only a relay can prove itself");
  way_ = Way::proven_relay;
}

bool NodeContact::tell_end() {
  return !std::exchange(end_told_, true);
}

std::chrono::milliseconds NodeContact::end_limit(std::chrono::milliseconds grace, bool serves_others) const {
  if (!reported()) return grace + JobOrders::kReportLateAfter;
  const std::chrono::milliseconds limit = JobOrders::kGuardianLateAfter;
  return serves_others ? limit + grace + rendezvous::kDaemonAtMost : limit;
}

}  // namespace muster::launcher
