// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/json.hpp"

#include "agent/core/error_file.hpp"
#include "launcher/core/time_shares_json.hpp"

#include <nlohmann/json.hpp>

namespace muster::launcher {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

const char* word_for(JobOutcome outcome) {
  switch (outcome) {
    case JobOutcome::succeeded:
      return "succeeded";
    case JobOutcome::failed:
      return "failed";
    case JobOutcome::interrupted:
      return "interrupted";
    case JobOutcome::deadline:
      return "deadline";
    case JobOutcome::launcher_error:
      break;
  }
  return "launcher_error";
}

std::string to_json(const ExitReport& report) {
  Json nodes = Json::array();
  for (const agent::NodeReport& node : report.nodes) {
    nodes.push_back(Json::parse(agent::to_json(node)));
    // What all nodes were told stands in the report once.
    nodes.back().erase("decisions");
    nodes.back().erase("hang");
    nodes.back().erase("slow");
    nodes.back().erase("flight_records");
  }
  Json root = nullptr;
  if (report.root() != nullptr)
    root = nodes[static_cast<std::size_t>(report.root_node)]["workers"]
                [static_cast<std::size_t>(report.root_worker)];
  Json hosts = Json::array();
  for (const HostFailure& host : report.hosts)
    hosts.push_back({{"node", host.node},
                     {"cause", host.cause},
                     {"advice", host.advice},
                     {"lost", host.lost},
                     {"spared", host.spared}});
  Json hang = nullptr;
  if (!report.hang.text.empty()) hang = Json::parse(agent::to_json(report.hang));
  const Json value = {{"schema", kReportSchema},
                      {"version", kReportVersion},
                      {"run_id", report.run_id},
                      {"program", report.program},
                      {"arguments", report.arguments},
                      {"muster_version", report.version},
                      {"started_at_ms", report.times.started_at_ms},
                      {"ended_at_ms", report.times.ended_at_ms},
                      {"duration_ms", report.times.duration_ms},
                      {"time", report.times.shares ? json_of<Json>(*report.times.shares) : Json(nullptr)},
                      {"outcome", word_for(report.outcome)},
                      {"exit_code", report.exit_code},
                      {"cause", report.cause},
                      {"cause_says_decision", report.cause_says_decision},
                      {"not_started", report.not_started},
                      {"advice", report.advice},
                      {"hang", hang},
                      {"slow", report.slow},
                      {"flight_record", report.flight_record},
                      {"log_dir", report.log_dir},
                      {"root_cause", root},
                      {"hosts", hosts},
                      {"unreported", report.unreported},
                      {"notes", report.notes},
                      {"restart_policy", rendezvous::name_of(report.restart_policy)},
                      {"decisions", Json::parse(agent::to_json(report.decisions))},
                      {"nodes", nodes}};
  return dump(value, 2) + "\n";
}

std::string error_file_of(const agent::WorkerError& error) {
  const Json extra = {{"py_callstack", error.traceback}, {"timestamp", std::to_string(error.timestamp_s)}};
  return dump({{"message", {{"message", error.message}, {"extraInfo", extra}}}}, -1);
}

std::string error_file_with_code(const std::string& error_file, const agent::ExitStatus& status) {
  const int code = status.kind == agent::ExitStatus::Kind::exited ? status.value : -status.value;
  Json value = Json::parse(agent::mended_json(error_file), nullptr, false);
  if (!value.is_object() || !value.contains("message")) value = {{"message", {{"message", error_file}}}};
  if (value["message"].is_object()) value["message"]["errorCode"] = code;
  return dump(value, -1);
}

}  // namespace muster::launcher
