// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_report.hpp"

#include "agent/core/health_json.hpp"
#include "agent/core/host_causes_json.hpp"
#include "agent/stacks/core/stacks_json.hpp"
#include "rendezvous/base/exit_code.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace muster::rendezvous {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FlightCall, sequence, name, inputs, outputs, types, state)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FlightGroup, name, id, ranks, last, calls, whole)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FlightRank, rank, groups)

}  // namespace muster::rendezvous

namespace muster::agent {

using Json = nlohmann::json;

NLOHMANN_JSON_SERIALIZE_ENUM(WorkerOutcome, {{WorkerOutcome::succeeded, "succeeded"},
                                             {WorkerOutcome::failed_by_itself, "failed_by_itself"},
                                             {WorkerOutcome::stopped_by_us, "stopped_by_us"},
                                             {WorkerOutcome::not_started, "not_started"}})
NLOHMANN_JSON_SERIALIZE_ENUM(NodeOutcome, {{NodeOutcome::succeeded, "succeeded"},
                                           {NodeOutcome::failed, "failed"},
                                           {NodeOutcome::stopped, "stopped"},
                                           {NodeOutcome::agent_error, "agent_error"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerError, message, traceback, timestamp_s)
NLOHMANN_JSON_SERIALIZE_ENUM(ExitStatus::Kind,
                             {{ExitStatus::Kind::exited, "exited"}, {ExitStatus::Kind::signaled, "signaled"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExitStatus, kind, value, core_dumped)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerCall, text, state, group, name, sequence, completed, for_ms, step,
                                   process, recent)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerReport, rank, local_rank, pid, host, outcome, status, stop_signal,
                                   arrival, ended_at_ms, error_file, error, last_lines, stdout_log,
                                   stderr_log, start_error, call, cpu_limit_s, watchdog, memory,
                                   memory_ruled_out, before_kill)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EndedBy, node, host, rank, exit_code, text, hung)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RestartDecision, round, cause, decision, again, restarts, delay_ms,
                                   is_cause)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HangStack, ranks, frames, truncated)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HangReport, level, text, said_ms, moved_ms, stacks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeReport, host, node, ended_by, node_rank, round, restarts, max_restarts,
                                   decisions, outcome, error, error_is_verdict, workers, calls, hang, slow,
                                   host_causes, flight_records, leftovers, notes)

bool answered_by_own_code(const WorkerReport& worker) {
  const ExitStatus& status = worker.status;
  return worker.stop_signal != 0 && status.kind == ExitStatus::Kind::exited && !status.success() &&
         status.value != kExitSignalBase + worker.stop_signal;
}

std::string describe(const WorkerReport& worker) {
  const bool crashed = worker.stop_signal != 0 && worker.outcome == WorkerOutcome::failed_by_itself;
  const bool answered = crashed || answered_by_own_code(worker);
  const std::string& why = worker.watchdog.empty() ? worker.memory : worker.watchdog;
  return describe(worker.status) + (answered ? " after our " + signal_name(worker.stop_signal) : "") +
         (why.empty() ? "" : ": " + why);
}

std::string to_json(const NodeReport& report) {
  return Json(report).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const std::vector<RestartDecision>& decisions) {
  return Json(decisions).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const HangReport& hang) {
  return Json(hang).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json_within(const NodeReport& report, std::size_t most) {
  std::string text = to_json(report);
  if (text.size() <= most) return text;
  const std::string size = "the report of " + report.host + " has " + std::to_string(text.size()) +
                           " bytes, and " + std::to_string(most) + " are the most";
  NodeReport shorter = report;
  shorter.flight_records.clear();
  for (WorkerReport& worker : shorter.workers) {
    worker.last_lines.clear();
    worker.error = {};
    worker.before_kill.clear();
  }
  shorter.notes.push_back(size +
                          ": what its workers said last is left out; see their logs and error files there");
  text = to_json(shorter);
  if (text.size() <= most) return text;
  NodeReport shortest;
  shortest.host = report.host;
  shortest.node = report.node;
  shortest.outcome = NodeOutcome::agent_error;
  shortest.error = size + ", even without what its workers said; start fewer workers on it";
  return to_json(shortest);
}

HangReport hang_report_from_json(const std::string& text) {
  if (text.size() > kHangReportMax) throw std::invalid_argument("a verdict on a hang: too long");
  try {
    const Json json = Json::parse(text);
    if (json.at("stacks").size() > kHangStacksMax)
      throw std::invalid_argument("a verdict on a hang: too many stacks");
    auto hang = json.get<HangReport>();
    for (const HangStack& stack : hang.stacks)
      if (stack.ranks.empty() || stack.frames.empty() || stack.frames.size() > kHangFramesMax)
        throw std::invalid_argument("a verdict on a hang: a stack of no rank, or of too many lines");
    return hang;
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("a verdict on a hang: ") + error.what());
  }
}

NodeReport node_report_from_json(const std::string& text) {
  try {
    return Json::parse(text).get<NodeReport>();
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("node report: ") + error.what());
  }
}

}  // namespace muster::agent
