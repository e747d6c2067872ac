// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_choice.hpp"

#include "launcher/inspect/ended_folder.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/wall_clock.hpp"
#include "rendezvous/log/log.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <utility>

namespace muster::launcher {
namespace {

std::string names_of(const std::vector<FoundJob>& jobs) {
  constexpr std::size_t kNamesMax = 8;
  return joined_by(
      jobs,
      [](const FoundJob& job) {
        return job.card.id + (job.card.name.empty() ? "" : " (" + job.card.name + ")");
      },
      ", ", kNamesMax);
}

}  // namespace

std::vector<FoundJob> running_jobs() {
  std::string trouble;
  std::vector<FoundJob> jobs = find_jobs(folder_of_jobs(), trouble);
  if (!trouble.empty()) log_warning("there may be more jobs: " + trouble);
  return jobs;
}

ChosenJob choose_job(const std::string& text) {
  const std::vector<FoundJob> jobs = running_jobs();
  NamedBy best = NamedBy::nothing;
  for (const FoundJob& job : jobs) best = std::max(best, named_by(job.card, text));
  // By a beginning a running job is meant only if none that has ended has the whole name.
  if (best <= NamedBy::beginning && !text.empty())
    if (auto ended = ended_job_named(find_ended(folder_of_jobs(), wall_clock_ms()), text);
        ended && named_by(ended->card, text) > best)
      return {std::nullopt, std::move(ended)};
  if (jobs.empty())
    throw LaunchError(kExitNoSuchJob, (text.empty() ? "no job" : "no job '" + text + "': none") +
                                          " of this user runs on this host; a job is seen on the host of its "
                                          "'muster run'");
  if (text.empty() && jobs.size() > 1)
    throw UsageError("several jobs run: " + names_of(jobs) + "; name one of them");
  if (text.empty()) return {jobs.front(), std::nullopt};
  if (best == NamedBy::nothing)
    throw LaunchError(kExitNoSuchJob, "no job '" + text + "' runs on this host; these do: " + names_of(jobs));
  std::vector<FoundJob> found;
  std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(found),
               [&](const FoundJob& job) { return named_by(job.card, text) == best; });
  if (found.size() > 1)
    throw UsageError("'" + text + "' names several jobs: " + names_of(found) + "; give an id of these");
  return {found.front(), std::nullopt};
}

FoundJob running_job(const std::string& text) {
  const ChosenJob chosen = choose_job(text);
  if (chosen.running) return *chosen.running;
  const EndedJob& ended = *chosen.ended;
  throw LaunchError(kExitNotRunning, "job " + ended.card.id + " has ended with exit code " +
                                         std::to_string(ended.exit_code) + "; 'muster status " +
                                         ended.card.id + "' says how");
}

bool still_runs(const JobCard& card) {
  std::string trouble;
  const std::vector<FoundJob> jobs = find_jobs(folder_of_jobs(), trouble);
  return std::any_of(jobs.begin(), jobs.end(), [&card](const FoundJob& job) {
    return job.card.id == card.id && job.card.pid == card.pid && job.card.start_time == card.start_time;
  });
}

void check_ranks(const std::vector<int>& ranks, const JobAnswer& answer) {
  std::set<int> missing(ranks.begin(), ranks.end());
  for (const agent::NodeStatus& node : answer.nodes)
    for (const agent::WorkerStatus& worker : node.workers) missing.erase(worker.rank);
  if (missing.empty() || !answer.silent.empty()) return;
  constexpr std::size_t kRangesMax = 8;
  throw UsageError("--rank: job " + answer.card.id + " has no rank " +
                   rank_list({missing.begin(), missing.end()}, kRangesMax) + " now; 'muster status " +
                   answer.card.id + "' lists its ranks");
}

LaunchError not_running(const FoundJob& job, const std::string& why) {
  return {kExitNotRunning, "job " + job.card.id + " (process " + std::to_string(job.card.pid) + "): " + why};
}

LaunchError unreadable(const FoundJob& job, const std::string& why) {
  return {kExitLauncherFailure, "job " + job.card.id + " runs under muster " + job.card.version +
                                    ", whose answer this muster " MUSTER_VERSION " cannot read: " + why};
}

}  // namespace muster::launcher
