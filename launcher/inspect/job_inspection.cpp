// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/job_inspection.hpp"

#include "launcher/inspect/core/job_query.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/random.hpp"
#include "rendezvous/log/log.hpp"

#include <unistd.h>

#include <exception>
#include <string>
#include <utility>

namespace muster::launcher {
namespace {

template <typename Duration>
std::int64_t milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

/// The workers of all nodes; 0 where a node counts its own.
int workers_of(const JobSpec& spec) {
  if (spec.nodes.empty()) return spec.agent.workers;
  int sum = 0;
  for (const NodePlan& node : spec.nodes) {
    if (node.workers == 0) return 0;
    sum += node.workers;
  }
  return sum;
}

}  // namespace

JobCard card_of(const JobSpec& spec) {
  JobCard card;
  card.id = spec.id.empty() ? job_id(spec.program, random_number()) : spec.id;
  card.name = spec.name;
  card.run_id = spec.agent.run_id;
  card.program = spec.program;
  card.arguments = spec.arguments;
  card.version = spec.version;
  card.host = spec.agent.host;
  card.pid = ::getpid();
  card.start_time = start_time_of(::getpid());
  card.boot = boot_id();
  card.pid_namespace = own_pid_namespace();
  card.started_at_ms = milliseconds(std::chrono::system_clock::now().time_since_epoch());
  card.nodes = spec.nodes.empty() ? 1 : static_cast<int>(spec.nodes.size());
  card.workers = workers_of(spec);
  card.console = spec.console;
  const agent::OutputSpec& output = spec.agent.output;
  if (output.redirects.any() || output.tee.any()) card.logs = output.log_dir;
  return card;
}

JobInspection::JobInspection(const boost::asio::any_io_executor& executor, const JobSpec& spec,
                             JobNodes& nodes, EndWaiters& waiters, JobControl control,
                             std::function<TimeShares()> shares)
    : nodes_(nodes), shares_(std::move(shares)) {
  std::string trouble;
  try {
    card_ = card_of(spec);
    kill_service_.emplace(card_.id, spec, nodes, waiters, std::move(control));
    folder_ = JobFolder::make(folder_of_jobs(), card_.id, trouble);
    if (folder_) {
      socket_.emplace(executor, folder_->socket(),
                      [this](const JobSocket::Question& question) { take(question); });
      if (folder_->publish(card_)) return;
      throw_errno(folder_->socket());
    }
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  socket_.reset();
  folder_.reset();
  log_warning("muster ps and muster status will not show this job: " + trouble);
}

void JobInspection::take(const JobSocket::Question& question) {
  if (kill_service_->take(question)) return;
  agent::NodeQuery query = agent::node_query_from_json(question.text);
  query.signal = 0;  // who looks at a job sends no signal
  look(query, [reply = question.reply](const JobAnswer& answer) { reply(to_json(answer)); });
}

void JobInspection::look(const agent::NodeQuery& query, std::function<void(JobAnswer)> done) const {
  nodes_.ask(query,
             [card = card_, begin = begin_, shares = shares_, tell = std::move(done)](NodeAnswers answers) {
               JobAnswer answer;
               answer.card = card;
               answer.age_ms = milliseconds(std::chrono::steady_clock::now() - begin);
               answer.shares = shares();
               answer.nodes = std::move(answers.given);
               answer.silent = std::move(answers.silent);
               tell(std::move(answer));
             });
}

}  // namespace muster::launcher
