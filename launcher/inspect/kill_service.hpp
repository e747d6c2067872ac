// SPDX-License-Identifier: Apache-2.0
// Carries out what `muster kill` asks of a running job.
#pragma once

#include "launcher/core/job_orders.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/inspect/core/kill_order.hpp"
#include "launcher/inspect/end_waiters.hpp"
#include "launcher/inspect/job_socket.hpp"
#include "launcher/nodes/job_nodes.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace muster::launcher {

/// What the launcher lets others do. Both are called from its one thread.
struct JobControl {
  /// Ends the job; returns the time within which it will have ended. `text` tells people.
  std::function<std::chrono::milliseconds(const EndRequest&, const std::string& text)> end;
  /// Tells people that workers get a signal. `noted`: also in the report of a job that fails.
  std::function<void(const std::string& text, bool noted)> tell;
};

/// Used from the executor's one thread.
class KillService {
 public:
  /// `nodes` and `waiters` outlive this object.
  KillService(std::string job, const JobSpec& spec, JobNodes& nodes, EndWaiters& waiters, JobControl control);

  /// Does what a question asks that is an order, and answers it. Returns whether it is one. Throws
  /// std::invalid_argument for an order that no muster gives.
  bool take(const JobSocket::Question& question);

 private:
  void end(const KillPlan& plan, const std::string& text, const JobSocket::Question& question);
  void deliver(const KillOrder& order, const KillPlan& plan, const JobSocket::Question& question);

  std::string job_;
  std::vector<int> ends_;
  std::vector<int> notices_;
  std::chrono::milliseconds grace_;
  JobNodes& nodes_;
  EndWaiters& waiters_;
  JobControl control_;
};

}  // namespace muster::launcher
