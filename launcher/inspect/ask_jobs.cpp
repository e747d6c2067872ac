// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/ask_jobs.hpp"

#include "launcher/inspect/ended_folder.hpp"
#include "launcher/inspect/job_folder.hpp"
#include "launcher/start/ask_over_ssh.hpp"
#include "rendezvous/base/wall_clock.hpp"

#include <chrono>
#include <cstddef>
#include <utility>

namespace muster::launcher {
namespace {

/// What a host needs after the login: a look at a folder.
constexpr std::chrono::seconds kPsAtMost{10};

void look_here(HostJobs& host, bool ended) {
  std::string trouble;
  for (FoundJob& job : find_jobs(folder_of_jobs(), trouble)) host.running.push_back(std::move(job.card));
  if (!trouble.empty()) host.trouble = host.host + ": there may be more jobs: " + trouble;
  if (ended) host.ended = find_ended(folder_of_jobs(), wall_clock_ms());
}

}  // namespace

std::vector<HostJobs> ask_jobs(const std::vector<NodePlan>& hosts, RemoteOptions options, bool ended,
                               const std::string& version, const agent::SignalState& signals) {
  std::vector<HostJobs> answers(hosts.size());
  std::vector<std::size_t> elsewhere;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    answers[i].host = hosts[i].name;
    if (hosts[i].local)
      look_here(answers[i], ended);
    else
      elsewhere.push_back(i);
  }
  if (elsewhere.empty()) return answers;
  options.remote_words = {"ps", "--json"};
  if (ended) options.remote_words.emplace_back("--all");
  HostQuestions questions{std::move(options), version, kPsAtMost, {}, {}};
  questions.take = [&answers](std::size_t host, const std::string& out) { read_jobs(out, answers[host]); };
  questions.fail = [&answers](std::size_t host, const StartFailure& why) {
    HostJobs& one = answers[host];
    one.running.clear();
    one.ended.clear();
    one.trouble = one.host + " did not answer: " + why.cause + (why.advice.empty() ? "" : "; " + why.advice);
  };
  ask_over_ssh(hosts, elsewhere, questions, signals);
  return answers;
}

}  // namespace muster::launcher
