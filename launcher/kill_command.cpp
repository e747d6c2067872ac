// SPDX-License-Identifier: Apache-2.0
#include "launcher/kill_command.hpp"

#include "launcher/cli/kill_options.hpp"
#include "launcher/inspect/core/kill_order.hpp"
#include "launcher/inspect/job_client.hpp"
#include "launcher/job_choice.hpp"
#include "launcher/standard_output.hpp"
#include "rendezvous/base/text.hpp"

#include <chrono>
#include <stdexcept>

namespace muster::launcher {
namespace {

using Clock = std::chrono::steady_clock;

/// Throws unless the job has all these ranks, so that nobody gets a signal where one is wrong.
void find_ranks(const FoundJob& job, const std::vector<int>& ranks) {
  agent::NodeQuery query;
  query.ranks = ranks;
  const JobAnswer answer = job_answer_from_json(ask_job(job.socket, query, kAnswerAtMost));
  check_ranks(ranks, answer);
  std::size_t found = 0;
  for (const agent::NodeStatus& node : answer.nodes) found += node.workers.size();
  if (found >= ranks.size()) return;
  constexpr std::size_t kNamesMax = 8;
  throw not_running(job, "no answer from " + joined(answer.silent, ", ", kNamesMax) +
                             ", where the other ranks may be; nothing was sent");
}

/// Waits for the end of a job that was told to end.
int wait_for_end(JobCall& call, const FoundJob& job, std::chrono::milliseconds limit, bool json) {
  const auto begin = Clock::now();
  std::string line;
  try {
    line = call.line(limit);
  } catch (const NoAnswer&) {
    const bool late = Clock::now() - begin >= limit;
    throw not_running(
        job, late ? "it was told to end and has not for " + std::to_string(limit / std::chrono::seconds(1)) +
                        " s; 'muster status' says what it does"
                  : std::string("it was told to end; its launcher went without a word about how"));
  }
  return print(json ? line + "\n" : end_text(kill_end_from_json(line)) + "\n");
}

int kill_job(const FoundJob& job, const KillOptions& options) {
  if (!options.ranks.empty()) find_ranks(job, options.ranks);
  const KillOrder order{options.signal, options.ranks, options.grace, options.now};
  JobCall call(job.socket, to_json(order), kAnswerAtMost);
  const std::string line = call.line(kAnswerAtMost);
  const KillAnswer answer = kill_answer_from_json(line);
  if (!answer.refusal.empty()) throw UsageError("job " + job.card.id + ": " + answer.refusal);
  if (answer.ends_within.count() > 0) return wait_for_end(call, job, answer.ends_within, options.json);
  const int code = print(options.json ? line + "\n" : delivery_text(order, answer) + "\n");
  return delivered(order, answer) ? code : kExitNotRunning;
}

}  // namespace

int kill_command(const std::vector<std::string>& arguments) {
  const KillOptions options = parse_kill_options(arguments);
  if (options.help) return print(kill_help());
  const FoundJob job = running_job(options.job);
  try {
    return kill_job(job, options);
  } catch (const NoAnswer& error) {
    throw not_running(job, error.what());
  } catch (const std::invalid_argument& error) {
    throw unreadable(job, error.what());
  }
}

}  // namespace muster::launcher
