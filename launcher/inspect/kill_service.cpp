// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/kill_service.hpp"

#include "agent/core/node_status.hpp"

#include <algorithm>
#include <utility>

namespace muster::launcher {
namespace {

KillAnswer answer_of(const std::string& job, NodeAnswers answers) {
  KillAnswer answer;
  answer.job = job;
  for (const agent::NodeStatus& node : answers.given)
    for (const agent::WorkerStatus& worker : node.workers)
      (worker.signalled ? answer.got : answer.without).push_back(worker.rank);
  std::sort(answer.got.begin(), answer.got.end());
  std::sort(answer.without.begin(), answer.without.end());
  answer.silent = std::move(answers.silent);
  return answer;
}

}  // namespace

KillService::KillService(std::string job, const JobSpec& spec, JobNodes& nodes, EndWaiters& waiters,
                         JobControl control)
    : job_(std::move(job)),
      notices_(spec.forwarded_signals),
      grace_(spec.agent.shutdown_timeout),
      nodes_(nodes),
      waiters_(waiters),
      control_(std::move(control)) {
  for (const HandledSignal& signal : spec.signals) ends_.push_back(signal.number);
}

bool KillService::take(const JobSocket::Question& question) {
  const auto order = kill_order_in(question.text);
  if (!order) return false;
  const std::string by = kill_author(*order, question.uid, question.pid);
  const KillPlan plan = plan_kill(*order, ends_, notices_, grace_, by);
  const std::string text = plan_text(*order, plan, by);
  switch (plan.kind) {
    case KillPlan::Kind::refuse: {
      KillAnswer answer;
      answer.job = job_;
      answer.refusal = plan.refusal;
      question.reply(to_json(answer));
      break;
    }
    case KillPlan::Kind::end:
      end(plan, text, question);
      break;
    case KillPlan::Kind::notice:
    case KillPlan::Kind::ranks:
      control_.tell(text, plan.kind == KillPlan::Kind::ranks);
      deliver(*order, plan, question);
      break;
  }
  return true;
}

void KillService::end(const KillPlan& plan, const std::string& text, const JobSocket::Question& question) {
  KillAnswer answer;
  answer.job = job_;
  answer.ends_within = control_.end(plan.end, text);
  waiters_.add(question.take_over(), to_json(answer));
}

void KillService::deliver(const KillOrder& order, const KillPlan& plan, const JobSocket::Question& question) {
  agent::NodeQuery query;
  query.signal = order.signal;
  query.notice = plan.kind == KillPlan::Kind::notice;
  query.ranks = order.ranks;
  nodes_.ask(query, [job = job_, reply = question.reply](NodeAnswers answers) {
    reply(to_json(answer_of(job, std::move(answers))));
  });
}

}  // namespace muster::launcher
