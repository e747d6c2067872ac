// SPDX-License-Identifier: Apache-2.0
#include "launcher/core/job_orders.hpp"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace muster::launcher {

JobActions JobOrders::asked(const EndRequest& request) {
  const bool counted = request.signal == SIGINT && !request.now;
  if (counted) ++interrupts_;
  if (request.now) interrupts_ = std::max(interrupts_, 2);
  JobActions actions = hurry();
  if (phase_ == Phase::finished) return actions;
  if (end_.cause == JobEnd::Cause::finished) {
    end_.cause = JobEnd::Cause::interrupted;
    end_.signal = request.signal;
    end_.by = request.by;
  }
  if (request.now ? phase_ < Phase::killing : counted && interrupts_ == 2 && phase_ != Phase::cutting) {
    phase_ = Phase::killing;
    actions.kill = true;
    actions.late_after = kKillLateAfter;
  } else if (counted && interrupts_ > 1) {
    phase_ = Phase::finished;
    actions.cut_all = true;
    actions.finish = true;
  } else if (!request.now) {
    if (request.grace) grace_ = phase_ == Phase::running ? *request.grace : std::min(grace_, *request.grace);
    report_late_after_ = grace_ + kReportLateAfter;
    stop(request.signal, actions);
    if (actions.stop_signal != 0 && request.grace) actions.grace = grace_;
  }
  return actions;
}

JobActions JobOrders::deadline_passed() {
  JobActions actions = hurry();
  // A job whose nodes end already has its cause, and a limit for its end.
  if (phase_ != Phase::running) return actions;
  end_.cause = JobEnd::Cause::deadline;
  stop(SIGTERM, actions);
  actions.stop_reason = "timeout";
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
