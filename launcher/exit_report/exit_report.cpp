// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/exit_report.hpp"

#include "launcher/exit_report/advice.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/core/flight_match.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

namespace muster::launcher {
namespace {

using agent::NodeOutcome;
using agent::NodeReport;
using agent::WorkerOutcome;
using agent::WorkerReport;

bool is_failure(const WorkerReport& worker) {
  return worker.outcome == WorkerOutcome::failed_by_itself || worker.outcome == WorkerOutcome::not_started;
}

/// Whether `a` is a better root cause than `b`. A worker that never started has no arrival (0) and so comes
/// first.
bool earlier(const WorkerReport& a, const WorkerReport& b) {
  return a.arrival != b.arrival ? a.arrival < b.arrival : a.rank < b.rank;
}

/// Whether the failure of this node came first: the coordinator told the other nodes whose failure that was,
/// and this node was told nothing.
bool failed_first(const NodeReport& node) {
  return node.outcome == NodeOutcome::failed && node.ended_by.node.empty() && !node.ended_by.hung;
}

void find_root_on(ExitReport& report, std::size_t node) {
  const std::vector<WorkerReport>& workers = report.nodes[node].workers;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!is_failure(workers[i])) continue;
    if (report.root() != nullptr && !earlier(workers[i], *report.root())) continue;
    report.root_node = static_cast<int>(node);
    report.root_worker = static_cast<int>(i);
  }
}

void find_root(ExitReport& report) {
  for (const bool first : {true, false})
    for (std::size_t node = 0; node < report.nodes.size() && report.root_node < 0; ++node)
      if (failed_first(report.nodes[node]) == first) find_root_on(report, node);
}

void judge_worker_failure(ExitReport& report) {
  const WorkerReport& root = *report.root();
  const std::string who = "rank " + std::to_string(root.rank) + " on " + root.host + ": ";
  report.outcome = JobOutcome::failed;
  report.exit_code = root.status.exit_code();
  report.cause = who + describe(root);
  const NodeReport& node = report.nodes[static_cast<std::size_t>(report.root_node)];
  report.advice = advice_for(node, root, report.program);
  if (root.outcome != WorkerOutcome::not_started) return;
  report.cause = who + "could not be started: " + root.start_error;
  if (report.exit_code != kExitNotFound) report.exit_code = kExitNotExecutable;
}

void judge_own_failure(ExitReport& report, const std::string& error) {
  report.outcome = JobOutcome::launcher_error;
  report.exit_code = kExitLauncherFailure;
  report.cause = error;
}

/// Says in the report that a job which can do without nodes cannot do without the first, which holds the
/// store.
void say_store(ExitReport& report, const JobSpec& spec, const std::string& node) {
  const bool elastic = spec.agent.limits.elastic();
  if (!elastic || spec.nodes.size() < 2 || node != spec.nodes.front().name) return;
  if (!report.cause_says_decision) report.cause += "; " + node + " holds the store, and the job ends with it";
  if (report.advice.empty())
    report.advice =
        "start the job again; one whose nodes meet at a daemon on another host can lose any of them "
        "('muster rendezvous', docs/multi-node.md)";
}

/// Takes the cause from a node, which has it from the coordinator or says it of itself.
void judge_node_failure(ExitReport& report, const NodeReport& node, const JobSpec& spec) {
  judge_own_failure(report, node.error);
  report.cause_says_decision = node.error_is_verdict;
  say_store(report, spec, node.node);
}

/// Returns a text such as "n07 (ssh: connection refused), n09 (...)".
std::string host_list(const std::vector<HostFailure>& hosts) {
  return joined_by(hosts, [](const HostFailure& host) { return host.node + " (" + host.cause + ")"; });
}

bool judge_hosts(ExitReport& report, const JobSpec& spec, bool lost) {
  std::vector<HostFailure> hosts;
  for (const HostFailure& host : report.hosts)
    if (host.lost == lost) hosts.push_back(host);
  if (hosts.empty()) return false;
  const std::string what = lost ? "lost" : "could not be started";
  if (hosts.size() == 1)
    judge_own_failure(report, lost ? lost_text(hosts[0]) : hosts[0].node + ": " + hosts[0].cause);
  else
    judge_own_failure(report, std::to_string(hosts.size()) + " of " + std::to_string(spec.nodes.size()) +
                                  " hosts " + (lost ? "were " : "") + what + ": " + host_list(hosts));
  report.cause_says_decision =
      std::any_of(hosts.begin(), hosts.end(), [](const HostFailure& host) { return host.says_decision; });
  report.advice = hosts[0].advice;
  report.not_started = !lost;
  for (const HostFailure& host : hosts)
    if (lost) say_store(report, spec, host.node);
  return true;
}

/// Says that no restart was left: as many nodes were left as the job asks for, and it ended all the same, as
/// under torchrun, where a loss costs a restart.
void say_no_restart(ExitReport& report, const rendezvous::JobLimits& limits) {
  if (limits.restart_rule != rendezvous::RestartRule::torchrun) return;
  const auto spared = [](const HostFailure& host) { return host.lost && host.spared; };
  const bool enough = std::any_of(report.hosts.begin(), report.hosts.end(), spared);
  if (!enough || report.restarts() < limits.max_restarts || report.cause_says_decision) return;
  report.cause += "; no restart is left (--max-restarts " + std::to_string(limits.max_restarts) + ")";
}

/// Takes the cause from a hang that was not let stand (--on-hang). What workers did once they were told to
/// stop for it is no cause.
bool judge_hang(ExitReport& report) {
  const auto hung = std::find_if(report.nodes.begin(), report.nodes.end(),
                                 [](const NodeReport& node) { return node.ended_by.hung; });
  if (hung == report.nodes.end()) return false;
  report.outcome = JobOutcome::failed;
  report.exit_code = hung->ended_by.exit_code;
  report.cause = hung->ended_by.text;
  report.advice = "look at the rank that is named; longer silent steps need a longer --hang-timeout";
  report.root_node = report.root_worker = -1;
  return true;
}

/// Takes the cause from a failure on a node that did not report here (each node has a launcher of its own, or
/// its report is lost).
bool judge_failure_elsewhere(ExitReport& report) {
  for (const NodeReport& node : report.nodes) {
    if (node.ended_by.node.empty()) continue;
    report.outcome = JobOutcome::failed;
    report.exit_code = node.ended_by.exit_code > 0 ? node.ended_by.exit_code : kExitLauncherFailure;
    report.cause = node.ended_by.text;
    report.cause_says_decision = true;
    report.advice =
        "see the report of " + (node.ended_by.host.empty() ? node.ended_by.node : node.ended_by.host);
    return true;
  }
  return false;
}

/// Returns the last round that ended well; -1: none did.
int last_good_round(const std::vector<NodeReport>& nodes) {
  int last = -1;
  for (const NodeReport& node : nodes)
    if (node.outcome == NodeOutcome::succeeded) last = std::max(last, node.round);
  return last;
}

/// Whether a node never joined the others, or was gone when the job began its last round.
bool missed_round(const NodeReport& node, int round) {
  return node.outcome != NodeOutcome::succeeded && (node.workers.empty() || node.round < round);
}

/// Whether a node's workers were done when the node met with an end of its own.
bool worked_to_the_end(const NodeReport& node, int round) {
  const auto good = [](const WorkerReport& worker) { return worker.outcome == WorkerOutcome::succeeded; };
  return node.round == round && !node.workers.empty() &&
         std::all_of(node.workers.begin(), node.workers.end(), good);
}

/// Judges a success. Under --nnodes MIN:MAX, what is missing was not needed, and becomes a note.
void judge_success(ExitReport& report) {
  const auto note = [&report](const std::string& node, const std::string& why) {
    report.notes.push_back("the job ended without " + node + ", which " + why);
  };
  for (const HostFailure& host : report.hosts)
    note(host.node, (host.lost ? "was lost: " : "could not be started: ") + host.cause);
  for (const NodeReport& node : report.nodes)
    if (node.outcome != NodeOutcome::succeeded)
      note(node.node, node.error.empty() ? "left before its last round" : "gave up: " + node.error);
  // What looks like a root cause was a failure that was made good.
  report.root_node = report.root_worker = -1;
}

/// Judges a job that ended by itself.
void judge_finished(ExitReport& report, const JobSpec& spec) {
  const bool first_is_known = std::any_of(report.nodes.begin(), report.nodes.end(), failed_first);
  if (all_succeeded(spec, report.nodes, report.hosts) && report.unreported.empty())
    return judge_success(report);
  const bool not_started_is_why =
      std::any_of(report.hosts.begin(), report.hosts.end(),
                  [](const HostFailure& host) { return !host.lost && !host.spared; });
  if (not_started_is_why && judge_hosts(report, spec, false)) return;
  if (first_is_known && report.root() != nullptr) return judge_worker_failure(report);
  if (judge_hosts(report, spec, true)) return say_no_restart(report, spec.agent.limits);
  for (const NodeReport& node : report.nodes)
    if (node.outcome == NodeOutcome::agent_error) return judge_node_failure(report, node, spec);
  if (judge_hang(report) || judge_failure_elsewhere(report)) return;
  // What workers do once somebody has told their agent to stop is no cause.
  for (const NodeReport& node : report.nodes)
    if (node.outcome != NodeOutcome::succeeded && !node.error.empty())
      return judge_node_failure(report, node, spec);
  if (report.root() != nullptr) return judge_worker_failure(report);
  for (const NodeReport& node : report.nodes)
    if (node.outcome != NodeOutcome::succeeded)
      return judge_own_failure(report, "the agent on " + node.host + " stopped its workers without a reason");
  if (report.nodes.empty()) return judge_own_failure(report, "no agent sent a report");
  if (!report.unreported.empty())
    judge_own_failure(report, "no report came from " + joined(report.unreported));
}

/// Returns the verdict on a hang of the last round, which all its nodes were told.
agent::HangReport hang_of(const std::vector<NodeReport>& nodes) {
  const NodeReport* last = nullptr;
  for (const NodeReport& node : nodes)
    if (node.hang.level != rendezvous::HangLevel::none && (last == nullptr || node.round > last->round))
      last = &node;
  if (last == nullptr) return {};
  agent::HangReport hang = last->hang;
  for (const NodeReport& node : nodes)
    if (&node != last && node.round == last->round) agent::merge_hang_stacks(hang.stacks, node.hang.stacks);
  if (hang.stacks.size() > agent::kHangStacksMax) hang.stacks.resize(agent::kHangStacksMax);
  return hang;
}

/// Returns which ranks were slow, as all nodes of the last round were told.
std::string slow_of(const std::vector<NodeReport>& nodes) {
  const NodeReport* last = nullptr;
  for (const NodeReport& node : nodes)
    if (last == nullptr || node.round > last->round || (node.round == last->round && last->slow.empty()))
      last = &node;
  return last == nullptr ? std::string() : last->slow;
}

/// Returns where the ranks of the last round do not match, by the flight records of all its nodes.
std::vector<std::string> flights_of(const std::vector<NodeReport>& nodes) {
  int last = -1;
  for (const NodeReport& node : nodes) last = std::max(last, node.round);
  std::vector<agent::FlightRank> ranks;
  for (const NodeReport& node : nodes)
    if (node.round == last) ranks.insert(ranks.end(), node.flight_records.begin(), node.flight_records.end());
  return rendezvous::match_flight_records(ranks);
}

/// Returns the decisions about restarts. All nodes of a round were told the same. The first node has the
/// coordinator: its word goes before that of the others, which count where it did not report.
std::vector<agent::RestartDecision> decisions_of(const JobSpec& spec, const std::vector<NodeReport>& nodes) {
  for (const NodeReport& node : nodes)
    if (!spec.nodes.empty() && node.node == spec.nodes.front().name) return node.decisions;
  std::map<int, agent::RestartDecision> by_round;
  for (const NodeReport& node : nodes)
    for (const agent::RestartDecision& decision : node.decisions)
      by_round.try_emplace(decision.round, decision);
  std::vector<agent::RestartDecision> decisions;
  decisions.reserve(by_round.size());
  for (auto& [round, decision] : by_round) decisions.push_back(std::move(decision));
  return decisions;
}

/// Returns a note where workers of several have started MPI as if each were alone, as mpi4py does: their
/// results are probably wrong, and nobody else says so. By what MPI libraries start beside a process that no
/// mpirun has started, and leave running at its end; "" where there is none.
std::string lone_mpi_note(const std::vector<NodeReport>& nodes) {
  constexpr std::array<std::string_view, 3> kDaemons = {" orted", " prted", " hydra_pmi_proxy"};
  std::size_t workers = 0;
  std::string found;
  for (const NodeReport& node : nodes) {
    workers += node.workers.size();
    for (const std::string& leftover : node.leftovers)
      for (const std::string_view daemon : kDaemons)
        if (leftover.ends_with(daemon)) found = daemon.substr(1);
  }
  if (found.empty() || workers < 2) return "";
  return "a worker has used MPI (it started " + found +
         ") and was rank 0 of 1 there, as muster run does not connect programs of MPI; start them with "
         "mpirun, "
         "or give --allow-singletons if each shall work alone";
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (const auto rest = time.count() % 1000; rest != 0) {
    const std::string digits = std::to_string(1000 + rest);
    text += "." + digits.substr(1, digits.find_last_not_of('0'));
  }
  return text + " s";
}

/// Returns the file that the user wrote on the command line, found in the command made from it.
std::string program_name(const agent::AgentSpec& spec) {
  if (spec.command.empty()) return "the job";
  return spec.command[std::clamp<std::size_t>(spec.first_script_argument, 1, spec.command.size()) - 1];
}

}  // namespace

int ExitReport::restarts() const {
  int count = 0;
  for (const NodeReport& node : nodes) count = std::max(count, node.restarts);
  return count;
}

bool all_succeeded(const JobSpec& spec, const std::vector<NodeReport>& reports,
                   const std::vector<HostFailure>& hosts) {
  const bool elastic = !spec.nodes.empty() && spec.agent.limits.elastic();
  const int last = last_good_round(reports);
  int succeeded = 0;
  for (const NodeReport& node : reports) {
    if (node.outcome == NodeOutcome::succeeded || (elastic && worked_to_the_end(node, last)))
      ++succeeded;
    else if (!elastic || !missed_round(node, last))
      return false;
  }
  if (succeeded < (elastic ? std::max(spec.agent.limits.min_nodes, 1) : 1)) return false;
  return std::all_of(hosts.begin(), hosts.end(), [](const HostFailure& host) { return host.spared; });
}

bool failed_before_order(const std::vector<NodeReport>& reports) {
  const auto last_was_decided = [](const NodeReport& node) {
    const auto& decisions = node.decisions;
    return !decisions.empty() && decisions.back().round == node.round && !decisions.back().again;
  };
  return std::any_of(reports.begin(), reports.end(), [&](const NodeReport& node) {
    // Of nodes that one launcher ends, the first to obey looks to the others like the cause. A peer's agent
    // tells what came before the order.
    if (reports.size() == 1 && !node.ended_by.node.empty()) return true;
    if (node.ended_by.hung) return last_was_decided(node);
    const bool for_good = node.restarts >= node.max_restarts || last_was_decided(node);
    return for_good && failed_first(node) &&
           std::any_of(node.workers.begin(), node.workers.end(), is_failure);
  });
}

ExitReport make_exit_report(const JobSpec& spec, const std::vector<NodeReport>& reports, const JobEnd& end) {
  ExitReport report;
  report.program = program_name(spec.agent);
  report.run_id = spec.agent.run_id;
  report.arguments = spec.arguments;
  report.version = spec.version;
  report.times = end.times;
  report.log_dir = spec.agent.output.log_dir;
  report.hosts = end.hosts;
  report.unreported = end.unreported;
  report.notes = end.notes;
  if (const std::string note = lone_mpi_note(reports); !note.empty() && !spec.allow_singletons)
    report.notes.push_back(note);
  report.nodes = reports;
  report.restart_policy = spec.agent.limits.restart_rule;
  report.decisions = decisions_of(spec, reports);
  find_root(report);
  switch (end.cause) {
    case JobEnd::Cause::finished:
      judge_finished(report, spec);
      break;
    case JobEnd::Cause::interrupted:
      report.outcome = JobOutcome::interrupted;
      report.exit_code = kExitSignalBase + end.signal;
      report.cause =
          "interrupted by " + agent::signal_name(end.signal) + (end.by.empty() ? "" : " from " + end.by);
      break;
    case JobEnd::Cause::deadline:
      report.outcome = JobOutcome::deadline;
      report.exit_code = kExitDeadline;
      report.cause = "not finished after " + seconds_text(spec.deadline) + " (--timeout)";
      report.advice = "give a longer --timeout, or look at what the workers were waiting for";
      break;
    case JobEnd::Cause::launcher_error:
      judge_own_failure(report, end.error);
      break;
  }
  if (report.outcome != JobOutcome::succeeded) report.hang = hang_of(reports);
  report.slow = slow_of(reports);
  report.flight_record = flights_of(reports);
  if (report.outcome == JobOutcome::deadline && !report.hang.text.empty())
    report.advice = "see why the job stood still, or give a longer --timeout";
  return report;
}

}  // namespace muster::launcher
