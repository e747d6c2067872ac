// SPDX-License-Identifier: Apache-2.0
#include "launcher/core/job_orders.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace muster::launcher {

JobActions JobOrders::signalled(int number) {
  if (number == SIGINT) ++interrupts_;
  JobActions actions = hurry();
  if (phase_ == Phase::finished) return actions;
  if (number != SIGINT || interrupts_ == 1) {
    if (end_.cause == JobEnd::Cause::finished) {
      end_.cause = JobEnd::Cause::interrupted;
      end_.signal = number;
    }
    stop(number, actions);
  } else if (interrupts_ == 2 && phase_ != Phase::cutting) {
    phase_ = Phase::killing;
    actions.kill = true;
    actions.late_after = kKillLateAfter;
  } else {
    phase_ = Phase::finished;
    actions.cut_all = true;
    actions.finish = true;
  }
  return actions;
}

JobActions JobOrders::deadline_passed() {
  JobActions actions = hurry();
  // A job whose nodes end already has its cause, and a limit for its end.
  if (phase_ != Phase::running) return actions;
  end_.cause = JobEnd::Cause::deadline;
  stop(SIGTERM, actions);
  return actions;
}

JobActions JobOrders::hurry() const {
  JobActions actions;
  actions.drop_output = interrupts_ > 1;
  actions.hurry_output = !actions.drop_output;
  return actions;
}

void JobOrders::stop(int signal, JobActions& actions) {
  if (phase_ >= Phase::killing) return;
  phase_ = Phase::ending;
  actions.stop_signal = signal;
  actions.late_after = report_late_after_;
}

JobActions JobOrders::node_failed() {
  JobActions actions;
  stop(0, actions);
  return actions;
}

JobActions JobOrders::reported() {
  if (phase_ >= Phase::cutting) return {};
  phase_ = std::max(phase_, Phase::ending);
  return {.late_after = kGuardianLateAfter};
}

JobActions JobOrders::late() {
  if (phase_ >= Phase::cutting) return nodes_ended();
  phase_ = Phase::cutting;
  return {.cut_all = true, .late_after = kCutLateAfter};
}

JobActions JobOrders::nodes_ended() {
  return {.finish = std::exchange(phase_, Phase::finished) != Phase::finished};
}

}  // namespace muster::launcher
