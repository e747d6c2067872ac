// SPDX-License-Identifier: Apache-2.0
// The jobs of several hosts, as `muster ps -H` lists them. Pure; every text is safe for a terminal.
#pragma once

#include "launcher/inspect/core/ended_job.hpp"
#include "launcher/inspect/core/job_card.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

struct HostJobs {
  /// As the user has named it.
  std::string host;
  std::vector<JobCard> running{};
  /// Those that have ended, where they were asked for.
  std::vector<EndedJob> ended{};
  /// Why the host has not answered, with its name; empty: it has.
  std::string trouble{};
};

/// Reads what `muster ps --json` prints into the lists. Throws std::invalid_argument for anything else.
void read_jobs(const std::string& text, HostJobs& into);

/// Returns one line for each job, under a line of names, in the order of the hosts. When a job has started is
/// shown by its host's clock, because the clocks of two hosts are not compared.
std::string host_jobs_text(const std::vector<HostJobs>& hosts);

/// Returns a list with an object for each host: "host", and "jobs" as `muster ps --json` has them, or
/// "error".
std::string host_jobs_json(const std::vector<HostJobs>& hosts);

}  // namespace muster::launcher
