// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/read_report.hpp"

#include "launcher/core/time_shares_json.hpp"
#include "launcher/exit_report/json.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <stdexcept>

namespace muster::launcher {
namespace {

using Value = nlohmann::json;

/// Returns `given` with what it lacks taken from `defaults`.
Value with_defaults(Value defaults, const Value& given) {
  defaults.update(given, true);
  return defaults;
}

agent::NodeReport node_from(const Value& given) {
  static const Value kNode = Value::parse(agent::to_json(agent::NodeReport{}));
  static const Value kWorker = [] {
    agent::NodeReport one;
    one.workers.emplace_back();
    return Value::parse(agent::to_json(one)).at("workers").at(0);
  }();
  Value node = with_defaults(kNode, given);
  for (Value& worker : node.at("workers")) worker = with_defaults(kWorker, worker);
  return agent::node_report_from_json(node.dump());
}

JobOutcome outcome_from(const std::string& word) {
  for (const JobOutcome outcome : {JobOutcome::succeeded, JobOutcome::failed, JobOutcome::interrupted,
                                   JobOutcome::deadline, JobOutcome::launcher_error})
    if (word == word_for(outcome)) return outcome;
  throw std::invalid_argument("'" + word + "' is no outcome of a job");
}

/// Finds the root cause among the nodes, of which it is a copy.
void find_root(ExitReport& report, const Value& nodes, const Value& root) {
  if (root.is_null()) return;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const Value& workers = nodes[node].at("workers");
    for (std::size_t worker = 0; worker < workers.size(); ++worker) {
      if (workers[worker] != root) continue;
      report.root_node = static_cast<int>(node);
      report.root_worker = static_cast<int>(worker);
      return;
    }
  }
  throw std::invalid_argument("its root_cause is no worker of its nodes");
}

HostFailure host_from(const Value& json) {
  HostFailure host;
  host.node = json.value("node", "");
  host.cause = json.value("cause", "");
  host.advice = json.value("advice", "");
  host.lost = json.value("lost", false);
  host.spared = json.value("spared", false);
  return host;
}

ExitReport report_from(const Value& json) {
  ExitReport report;
  report.run_id = json.value("run_id", "");
  report.program = json.value("program", "");
  report.arguments = json.value("arguments", std::vector<std::string>());
  report.version = json.value("muster_version", "");
  report.times.started_at_ms = json.value("started_at_ms", std::int64_t{0});
  report.times.ended_at_ms = json.value("ended_at_ms", std::int64_t{0});
  report.times.duration_ms = json.value("duration_ms", std::int64_t{0});
  if (json.contains("time") && !json.at("time").is_null()) report.times.shares = shares_from(json.at("time"));
  report.outcome = outcome_from(json.at("outcome").get<std::string>());
  report.exit_code = json.at("exit_code").get<int>();
  report.cause = json.value("cause", "");
  report.cause_says_decision = json.value("cause_says_decision", false);
  report.not_started = json.value("not_started", false);
  report.advice = json.value("advice", "");
  if (json.contains("hang") && !json.at("hang").is_null())
    report.hang = agent::hang_report_from_json(json.at("hang").dump());
  report.slow = json.value("slow", "");
  report.flight_record = json.value("flight_record", std::vector<std::string>());
  report.log_dir = json.value("log_dir", "");
  report.unreported = json.value("unreported", std::vector<std::string>());
  report.notes = json.value("notes", std::vector<std::string>());
  const auto policy = rendezvous::restart_rule(json.value("restart_policy", ""));
  report.restart_policy = policy.value_or(report.restart_policy);
  for (const Value& host : json.value("hosts", Value::array())) report.hosts.push_back(host_from(host));
  for (const Value& node : json.at("nodes")) report.nodes.push_back(node_from(node));
  // A node's report is what reads decisions.
  agent::NodeReport decided;
  Value node = Value::parse(agent::to_json(decided));
  node["decisions"] = json.value("decisions", Value::array());
  report.decisions = agent::node_report_from_json(node.dump()).decisions;
  find_root(report, json.at("nodes"), json.value("root_cause", Value()));
  return report;
}

}  // namespace

ExitReport report_from_json(const std::string& text) {
  try {
    const Value json = Value::parse(text);
    if (!json.is_object() || json.value("schema", "") != kReportSchema)
      throw std::invalid_argument(std::string("it has no schema ") + kReportSchema);
    if (const int version = json.at("version").get<int>(); version != kReportVersion)
      throw std::invalid_argument("it has version " + std::to_string(version) +
                                  " of its schema, and this muster reads " + std::to_string(kReportVersion) +
                                  "; show it with the muster that has written it");
    return report_from(json);
  } catch (const Value::exception& error) {
    throw std::invalid_argument(error.what());
  }
}

}  // namespace muster::launcher
