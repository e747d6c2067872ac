// SPDX-License-Identifier: Apache-2.0
// Lets other shells find a running job, ask what it does, and end it.
#pragma once

#include "launcher/core/job_spec.hpp"
#include "launcher/core/time_shares.hpp"
#include "launcher/inspect/core/job_card.hpp"
#include "launcher/inspect/core/job_query.hpp"
#include "launcher/inspect/end_waiters.hpp"
#include "launcher/inspect/job_folder.hpp"
#include "launcher/inspect/job_socket.hpp"
#include "launcher/inspect/kill_service.hpp"
#include "launcher/nodes/job_nodes.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <optional>

namespace muster::launcher {

/// Returns the card of a job whose launcher is this process.
JobCard card_of(const JobSpec& spec);

/// The job's folder and socket, from construction to destruction. A job runs without them: where they cannot
/// be made, a warning says so. Used from the executor's one thread.
class JobInspection {
 public:
  /// Call after the last fork, since a child would keep the socket open. `nodes`, which answer, and `waiters`
  /// outlive this object.
  /// `shares` says what the time of the job went into so far.
  JobInspection(const boost::asio::any_io_executor& executor, const JobSpec& spec, JobNodes& nodes,
                EndWaiters& waiters, JobControl control, std::function<TimeShares()> shares);

  /// Returns the card of the job; it is of no use where the folder could not be made.
  const JobCard& card() const { return card_; }

  /// Asks the nodes what they do. `done` is called later, within agent::kNodeAnswersWithin, unless the nodes
  /// end before; this object may have ended then.
  void look(const agent::NodeQuery& query, std::function<void(JobAnswer)> done) const;

  /// Whether other shells can find the job.
  bool is_seen() const { return socket_.has_value(); }

 private:
  void take(const JobSocket::Question& question);

  JobNodes& nodes_;
  JobCard card_;
  std::function<TimeShares()> shares_;
  std::optional<KillService> kill_service_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<JobFolder> folder_;
  std::optional<JobSocket> socket_;
};

}  // namespace muster::launcher
