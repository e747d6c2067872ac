// SPDX-License-Identifier: Apache-2.0
// Which running job a command is about, for the commands that look at jobs or end them.
#pragma once

#include "launcher/core/launch_error.hpp"
#include "launcher/inspect/core/ended_job.hpp"
#include "launcher/inspect/core/job_query.hpp"
#include "launcher/inspect/job_folder.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

/// Exit codes of these commands besides 0 and 2 (usage).
inline constexpr int kExitNoSuchJob = 1;
inline constexpr int kExitNotRunning = 3;

/// Returns the running jobs of this user on this host, the oldest first. A warning says why there may be
/// more.
std::vector<FoundJob> running_jobs();

/// A job of this user, one of the two.
struct ChosenJob {
  std::optional<FoundJob> running;
  std::optional<EndedJob> ended;
};

/// Returns the one job that `text` names best; without a text the only one that runs. One that has ended is
/// chosen where none that runs is named as well. Throws LaunchError and UsageError, which name the others.
ChosenJob choose_job(const std::string& text);

/// Does the same for a job that runs; throws LaunchError where it has ended.
FoundJob running_job(const std::string& text);

/// Whether the job of this card still runs here.
bool still_runs(const JobCard& card);

/// Throws UsageError for ranks that were asked for and that no node has. Those of a node that is silent may
/// be there.
void check_ranks(const std::vector<int>& ranks, const JobAnswer& answer);

/// The error for a job that gave no answer.
LaunchError not_running(const FoundJob& job, const std::string& why);

/// The error for an answer that no muster of this version gives.
LaunchError unreadable(const FoundJob& job, const std::string& why);

}  // namespace muster::launcher
