// SPDX-License-Identifier: Apache-2.0
// Lets other shells find a running job and ask what it does.
#pragma once

#include "launcher/core/job_spec.hpp"
#include "launcher/inspect/core/job_card.hpp"
#include "launcher/inspect/job_folder.hpp"
#include "launcher/inspect/job_socket.hpp"
#include "launcher/nodes/job_nodes.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <optional>

namespace muster::launcher {

/// The job's folder and socket, from construction to destruction. A job runs without them: where they cannot
/// be made, a warning says so. Used from the executor's one thread.
class JobInspection {
 public:
  /// Call after the last fork, since a child would keep the socket open. `nodes`, which answer, outlive this
  /// object.
  JobInspection(const boost::asio::any_io_executor& executor, const JobSpec& spec, JobNodes& nodes);

 private:
  void answer(const agent::NodeQuery& query, JobSocket::Reply reply);

  JobNodes& nodes_;
  JobCard card_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<JobFolder> folder_;
  std::optional<JobSocket> socket_;
};

}  // namespace muster::launcher
