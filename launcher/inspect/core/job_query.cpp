// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/job_query.hpp"

#include "agent/core/node_status_json.hpp"
#include "launcher/core/time_shares_json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

namespace muster::launcher {
namespace {

constexpr int kSchemaVersion = 1;

bool is_idle(const agent::WorkerStatus& worker) {
  using rendezvous::WaitKind;
  return !worker.does.empty() && worker.activity == rendezvous::Activity::waits &&
         worker.wait != WaitKind::communication && worker.wait != WaitKind::store_key &&
         worker.wait != WaitKind::stopped &&
         worker.still_ms >= std::chrono::milliseconds(kIdleAtLeast).count();
}

}  // namespace

agent::StandingHang standing_hang(const JobAnswer& answer) {
  const agent::StandingHang* last = nullptr;
  for (const agent::NodeStatus& node : answer.nodes) {
    const bool stands = node.hang.level != rendezvous::HangLevel::none;
    if (stands && (last == nullptr || node.hang.said_ms < last->said_ms)) last = &node.hang;
  }
  return last == nullptr ? agent::StandingHang{} : *last;
}

std::string slow_ranks(const JobAnswer& answer) {
  const auto told = std::find_if(answer.nodes.begin(), answer.nodes.end(),
                                 [](const agent::NodeStatus& node) { return !node.slow.empty(); });
  return told == answer.nodes.end() ? std::string() : told->slow;
}

std::optional<std::chrono::milliseconds> idle_since(const JobAnswer& answer) {
  if (!answer.silent.empty()) return std::nullopt;
  std::optional<std::int64_t> shortest;
  for (const agent::NodeStatus& node : answer.nodes)
    for (const agent::WorkerStatus& worker : node.workers) {
      if (!is_idle(worker)) return std::nullopt;
      shortest = std::min(shortest.value_or(worker.still_ms), worker.still_ms);
    }
  if (!shortest) return std::nullopt;
  return std::chrono::milliseconds(*shortest);
}

std::vector<agent::EndedRound> ended_rounds(const JobAnswer& answer) {
  const auto most = std::max_element(
      answer.nodes.begin(), answer.nodes.end(),
      [](const auto& one, const auto& other) { return one.ended_rounds.size() < other.ended_rounds.size(); });
  return most == answer.nodes.end() ? std::vector<agent::EndedRound>{} : most->ended_rounds;
}

std::string to_json(const JobAnswer& answer) {
  const nlohmann::json json{
      {"schema", "muster.job"},
      {"version", kSchemaVersion},
      {"job", nlohmann::json::parse(to_json(answer.card))},
      {"age_ms", answer.age_ms},
      {"time", answer.shares ? json_of<nlohmann::json>(*answer.shares) : nlohmann::json(nullptr)},
      {"hang", standing_hang(answer)},
      {"slow", slow_ranks(answer)},
      {"nodes", answer.nodes},
      {"no_answer_from", answer.silent}};
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

JobAnswer job_answer_from_json(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("version") != kSchemaVersion) throw std::invalid_argument("another version of the schema");
    JobAnswer answer;
    answer.card = job_card_from_json(json.at("job").dump());
    json.at("age_ms").get_to(answer.age_ms);
    if (const auto time = json.find("time"); time != json.end() && !time->is_null())
      answer.shares = shares_from(*time);
    json.at("nodes").get_to(answer.nodes);
    json.at("no_answer_from").get_to(answer.silent);
    return answer;
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("the answer of a job: ") + error.what());
  }
}

}  // namespace muster::launcher
