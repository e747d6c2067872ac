// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/job_query.hpp"

#include "agent/core/node_status_json.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace muster::launcher {
namespace {

constexpr int kSchemaVersion = 1;

}  // namespace

std::string to_json(const JobAnswer& answer) {
  const nlohmann::json json{{"schema", "muster.job"},
                            {"version", kSchemaVersion},
                            {"job", nlohmann::json::parse(to_json(answer.card))},
                            {"age_ms", answer.age_ms},
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
    json.at("nodes").get_to(answer.nodes);
    json.at("no_answer_from").get_to(answer.silent);
    return answer;
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("the answer of a job: ") + error.what());
  }
}

}  // namespace muster::launcher
