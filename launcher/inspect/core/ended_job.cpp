// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/ended_job.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

namespace muster::launcher {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kCauseMost = 4096;

std::string as_record(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json end_of(const EndedJob& job) {
  std::string cause = job.cause.substr(0, job.cause.find('\n'));
  cause.resize(std::min(cause.size(), kCauseMost));
  return {{"exit_code", job.exit_code},     {"cause", cause},       {"report", job.report},
          {"ended_at_ms", job.ended_at_ms}, {"cpu_ms", job.cpu_ms}, {"memory_peak", job.memory_peak}};
}

}  // namespace

std::string to_json(const EndedJob& job) {
  Json json = Json::parse(to_json(job.card));
  json["ended"] = end_of(job);
  return as_record(json);
}

EndedJob ended_job_from_json(const std::string& text) {
  try {
    EndedJob job;
    job.card = job_card_from_json(text);
    const Json end = Json::parse(text).at("ended");
    end.at("exit_code").get_to(job.exit_code);
    end.at("cause").get_to(job.cause);
    end.at("report").get_to(job.report);
    end.at("ended_at_ms").get_to(job.ended_at_ms);
    end.at("cpu_ms").get_to(job.cpu_ms);
    end.at("memory_peak").get_to(job.memory_peak);
    return job;
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("the record of a job: ") + error.what());
  }
}

std::string status_json(const EndedJob& job) {
  return as_record({{"schema", "muster.job"},
                    {"version", 1},
                    {"job", Json::parse(to_json(job.card))},
                    {"age_ms", job.ended_at_ms - job.card.started_at_ms},
                    {"nodes", Json::array()},
                    {"no_answer_from", Json::array()},
                    {"ended", end_of(job)}});
}

bool is_over(std::int64_t ended_at_ms, std::int64_t now_ms) {
  return now_ms - ended_at_ms > std::chrono::milliseconds(kEndedKeptFor).count();
}

std::optional<EndedJob> ended_job_named(const std::vector<EndedJob>& jobs, const std::string& text) {
  NamedBy best = NamedBy::nothing;
  for (const EndedJob& job : jobs) best = std::max(best, named_by(job.card, text));
  if (best == NamedBy::nothing) return std::nullopt;
  const EndedJob* last = nullptr;
  int count = 0;
  for (const EndedJob& job : jobs) {
    if (named_by(job.card, text) != best) continue;
    ++count;
    if (last == nullptr || job.ended_at_ms >= last->ended_at_ms) last = &job;
  }
  if (best == NamedBy::beginning && count > 1) return std::nullopt;
  return *last;
}

}  // namespace muster::launcher
