// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/host_jobs.hpp"

#include "launcher/core/utc_text.hpp"
#include "launcher/inspect/core/job_text.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace muster::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// "2026-11-28T04:00:12Z".
std::string second_text(std::int64_t time_ms) {
  constexpr std::size_t kSeconds = 19;
  return utc_text(time_ms).substr(0, kSeconds) + "Z";
}

std::vector<std::string> row_of(const std::string& host, const JobCard& card, const std::string& state) {
  return {for_terminal(host),
          for_terminal(card.id),
          card.name.empty() ? "-" : for_terminal(card.name),
          state,
          second_text(card.started_at_ms),
          std::to_string(card.nodes),
          card.workers > 0 ? std::to_string(card.workers) : "-",
          for_terminal("muster run " + joined(card.arguments, " "))};
}

}  // namespace

void read_jobs(const std::string& text, HostJobs& into) {
  // A noisy shell may have printed before it, and no later line of the list begins so.
  const std::size_t begin = text.rfind("\n[") + 1;  // npos + 1 is 0
  try {
    for (const auto& item : nlohmann::json::parse(text.substr(begin)).get<std::vector<nlohmann::json>>()) {
      if (item.contains("ended"))
        into.ended.push_back(ended_job_from_json(item.dump()));
      else
        into.running.push_back(job_card_from_json(item.dump()));
    }
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("its answer is no list of jobs: ") + error.what());
  }
}

std::string host_jobs_text(const std::vector<HostJobs>& hosts) {
  std::vector<std::vector<std::string>> rows{
      {"HOST", "JOB", "NAME", "STATE", "STARTED", "NODES", "WORKERS", "COMMAND"}};
  for (const HostJobs& host : hosts) {
    for (const JobCard& card : host.running) rows.push_back(row_of(host.host, card, "running"));
    for (const EndedJob& job : host.ended)
      rows.push_back(row_of(host.host, job.card, "ended (" + std::to_string(job.exit_code) + ")"));
  }
  return table(rows);
}

std::string host_jobs_json(const std::vector<HostJobs>& hosts) {
  OrderedJson list = OrderedJson::array();
  for (const HostJobs& host : hosts) {
    OrderedJson entry = {{"host", host.host}};
    if (!host.trouble.empty()) {
      entry["error"] = host.trouble;
    } else {
      entry["jobs"] = OrderedJson::array();
      for (const JobCard& card : host.running) entry["jobs"].push_back(OrderedJson::parse(to_json(card)));
      for (const EndedJob& job : host.ended) entry["jobs"].push_back(OrderedJson::parse(to_json(job)));
    }
    list.push_back(std::move(entry));
  }
  return list.dump(2, ' ', true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace muster::launcher
