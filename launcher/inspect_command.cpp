// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect_command.hpp"

#include "launcher/cli/inspect_options.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/inspect/core/job_text.hpp"
#include "launcher/inspect/job_client.hpp"
#include "launcher/inspect/job_folder.hpp"
#include "launcher/standard_output.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/log.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

namespace muster::launcher {
namespace {

/// Longer than the launcher waits for its nodes, and short enough for a person.
constexpr std::chrono::milliseconds kAnswerAtMost = agent::kNodeAnswersWithin + std::chrono::seconds(2);

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<FoundJob> running_jobs() {
  std::string trouble;
  std::vector<FoundJob> jobs = find_jobs(folder_of_jobs(), trouble);
  if (!trouble.empty()) log_warning("there may be more jobs: " + trouble);
  return jobs;
}

std::string names_of(const std::vector<FoundJob>& jobs) {
  constexpr std::size_t kNamesMax = 8;
  return joined_by(
      jobs, [](const FoundJob& job) { return job.card.id; }, ", ", kNamesMax);
}

/// Returns the one job that `text` names best; without a text the only one.
FoundJob chosen(const std::string& text) {
  const std::vector<FoundJob> jobs = running_jobs();
  if (jobs.empty())
    throw LaunchError(kExitNoSuchJob, (text.empty() ? "no job" : "no job '" + text + "': none") +
                                          " of this user runs on this host; a job is seen on the host of its "
                                          "'muster run'");
  if (text.empty() && jobs.size() > 1)
    throw UsageError("several jobs run: " + names_of(jobs) + "; name one of them");
  if (text.empty()) return jobs.front();
  NamedBy best = NamedBy::nothing;
  for (const FoundJob& job : jobs) best = std::max(best, named_by(job.card, text));
  if (best == NamedBy::nothing)
    throw LaunchError(kExitNoSuchJob, "no job '" + text + "' runs on this host; these do: " + names_of(jobs));
  std::vector<FoundJob> found;
  std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(found),
               [&](const FoundJob& job) { return named_by(job.card, text) == best; });
  if (found.size() > 1)
    throw UsageError("'" + text + "' names several jobs: " + names_of(found) + "; give an id of these");
  return found.front();
}

int ps(const InspectOptions& options) {
  std::vector<JobCard> cards;
  for (FoundJob& job : running_jobs()) cards.push_back(std::move(job.card));
  if (!options.json) return print(jobs_table(cards, now_ms()));
  std::string text = "[";
  for (const JobCard& card : cards) text += (text.size() > 1 ? ",\n" : "\n") + to_json(card);
  return print(text + (cards.empty() ? "]\n" : "\n]\n"));
}

/// Throws UsageError for ranks that were asked for and that no node has. Those of a node that is silent may
/// be there.
void check_ranks(const InspectOptions& options, const JobAnswer& answer) {
  std::set<int> missing(options.ranks.begin(), options.ranks.end());
  for (const agent::NodeStatus& node : answer.nodes)
    for (const agent::WorkerStatus& worker : node.workers) missing.erase(worker.rank);
  if (missing.empty() || !answer.silent.empty()) return;
  constexpr std::size_t kRangesMax = 8;
  throw UsageError("--rank: job " + answer.card.id + " has no rank " +
                   rank_list({missing.begin(), missing.end()}, kRangesMax) + " now; 'muster status " +
                   answer.card.id + "' lists its ranks");
}

int ask(const InspectOptions& options, bool stacks) {
  const FoundJob job = chosen(options.job);
  agent::NodeQuery query;
  query.stacks = stacks;
  query.helpers = options.helpers;
  query.ranks = options.ranks;
  try {
    const std::string line = ask_job(job.socket, query, kAnswerAtMost);
    if (options.json) return print(line + "\n");
    const JobAnswer answer = job_answer_from_json(line);
    check_ranks(options, answer);
    return print(stacks ? stacks_text(answer) : status_text(answer));
  } catch (const NoAnswer& error) {
    throw LaunchError(kExitNotRunning, "job " + job.card.id + " (process " + std::to_string(job.card.pid) +
                                           "): " + error.what());
  } catch (const std::invalid_argument& error) {
    throw LaunchError(kExitLauncherFailure,
                      "job " + job.card.id + " runs under muster " + job.card.version +
                          ", whose answer this muster " MUSTER_VERSION " cannot read: " + error.what());
  }
}

}  // namespace

bool is_inspect_command(const std::string& command) {
  return command == "ps" || command == "status" || command == "stacks";
}

int inspect_command(const std::string& command, const std::vector<std::string>& arguments) {
  const InspectOptions options = parse_inspect_options(command, arguments);
  if (options.help) return print(inspect_help(command));
  return command == "ps" ? ps(options) : ask(options, command == "stacks");
}

}  // namespace muster::launcher
