// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/core/job_metrics.hpp"

#include "launcher/metrics/core/metrics_text.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

using Labels = MetricsText::Labels;
using Worker = agent::WorkerStatus;

constexpr std::array<std::string_view, 10> kStates{"starting", "running",       "hung",   "restarting",
                                                   "stopping", "succeeded",     "failed", "interrupted",
                                                   "deadline", "launcher_error"};

/// A rank with the labels that its samples have.
struct Rank {
  Labels labels;
  const Worker* worker = nullptr;
};

std::vector<Rank> ranks_of(const JobAnswer& answer) {
  std::vector<Rank> ranks;
  for (const agent::NodeStatus& node : answer.nodes)
    for (const Worker& worker : node.workers) {
      if (ranks.size() == kMetricsRanksMost) return ranks;
      ranks.push_back({{{"muster_job", answer.card.id},
                        {"node", metrics_name(node)},
                        {"rank", std::to_string(worker.rank)}},
                       &worker});
    }
  return ranks;
}

bool is_culprit(const agent::StandingHang& hang, int rank) {
  // No rank stands out where all agree: then all of them are what hangs.
  return hang.level != rendezvous::HangLevel::none &&
         (hang.culprits.empty() ||
          std::find(hang.culprits.begin(), hang.culprits.end(), rank) != hang.culprits.end());
}

void add_job(MetricsText& text, const JobMetrics& metrics, const Labels& job) {
  const JobCard& card = metrics.answer.card;
  Labels about = job;
  about.insert(about.end(), {{"name", card.name},
                             {"run_id", card.run_id},
                             {"program", card.program},
                             {"host", card.host},
                             {"version", card.version}});
  text.family("muster_job", "info", "", "The job that these metrics are of.");
  text.sample(about, 1);
  text.family("muster_job_state", "gauge", "", "1 for the state that the job is in, 0 for the others.");
  for (const std::string_view state : kStates) {
    Labels labels = job;
    labels.emplace_back("state", state);
    text.sample(labels, metrics.counts.state == state ? 1 : 0);
  }
  text.family("muster_last_update_seconds", "gauge", "seconds", "When these metrics were made, since 1970.");
  text.seconds(job, metrics.now_ms);
  text.family("muster_job_duration_seconds", "gauge", "seconds", "How long the job has lasted.");
  text.seconds(job, metrics.settled.total().count());
  text.family("muster_restarts", "counter", "", "Restarts by the cause of the round's end.");
  for (const std::string_view cause : {"node_failed", "node_left", "node_lost", "nodes_waiting", "hung"}) {
    Labels labels = job;
    labels.emplace_back("cause", cause);
    const auto found = metrics.counts.restarts.find(std::string(cause));
    text.sample(labels, found == metrics.counts.restarts.end() ? 0 : found->second);
  }
  text.family("muster_lost_seconds", "counter", "seconds",
              "Time of the job that was not useful work, by what it went into.");
  const TimeShares& lost = metrics.settled;
  const std::array<std::pair<std::string_view, std::chrono::milliseconds>, 5> phases{
      {{"start", lost.start},
       {"detect", lost.detect},
       {"restart", lost.restart},
       {"recompute", lost.recompute},
       {"end", lost.end}}};
  for (const auto& [phase, time] : phases) {
    Labels labels = job;
    labels.emplace_back("phase", phase);
    text.seconds(labels, time.count());
  }
  text.family(
      "muster_oom_kills", "counter", "",
      "Workers that ended because the kernel killed them, or a process of theirs, for want of memory.");
  text.sample(job, metrics.counts.memory_kills);
  if (metrics.counts.round_started_at_ms == 0) return;
  text.family("muster_round_start_seconds", "gauge", "seconds", "When the present round began, since 1970.");
  text.seconds(job, metrics.counts.round_started_at_ms);
}

void add_nodes(MetricsText& text, const JobMetrics& metrics) {
  if (metrics.heard_ms_ago.empty()) return;
  text.family("muster_node_last_heard_seconds", "gauge", "seconds",
              "Time since the node has last answered the launcher's question what it does.");
  for (const auto& [node, ago] : metrics.heard_ms_ago)
    text.seconds({{"muster_job", metrics.answer.card.id}, {"node", node}}, ago);
}

void add_ranks(MetricsText& text, const JobMetrics& metrics) {
  const std::vector<Rank> ranks = ranks_of(metrics.answer);
  const agent::StandingHang hang = standing_hang(metrics.answer);
  std::size_t all = 0;
  for (const agent::NodeStatus& node : metrics.answer.nodes) all += node.workers.size();
  if (all > ranks.size()) {
    text.family("muster_ranks_left_out", "gauge", "",
                "Ranks that are too many to have metrics of their own.");
    text.sample({{"muster_job", metrics.answer.card.id}}, static_cast<std::int64_t>(all - ranks.size()));
  }
  // A family that would have no sample is left out.
  const auto add = [&](std::string_view name, std::string_view type, std::string_view unit,
                       std::string_view help, const std::function<bool(const Worker&)>& known,
                       const std::function<void(const Rank&)>& sample) {
    if (std::none_of(ranks.begin(), ranks.end(), [&](const Rank& rank) { return known(*rank.worker); }))
      return;
    text.family(name, type, unit, help);
    for (const Rank& rank : ranks)
      if (known(*rank.worker)) sample(rank);
  };
  const auto watched = [](const Worker& worker) { return !worker.does.empty(); };
  add("muster_rank_hung", "gauge", "", "1 for the ranks that the verdict on a hang names as its cause.",
      watched,
      [&](const Rank& rank) { text.sample(rank.labels, is_culprit(hang, rank.worker->rank) ? 1 : 0); });
  add("muster_rank_stalled_seconds", "gauge", "seconds", "Time since anything of the rank has moved.",
      watched, [&](const Rank& rank) { text.seconds(rank.labels, rank.worker->still_ms); });
  add(
      "muster_rank_step", "gauge", "", "The step that the program has told (muster_set_step).",
      [](const Worker& worker) { return worker.step > 0; },
      [&](const Rank& rank) { text.sample(rank.labels, static_cast<std::int64_t>(rank.worker->step)); });
  add(
      "muster_rank_cpu_seconds", "counter", "seconds",
      "CPU time of the process that runs the program, without its children.",
      [](const Worker& worker) { return worker.cpu_ms > 0; },
      [&](const Rank& rank) { text.seconds(rank.labels, rank.worker->cpu_ms); });
  add(
      "muster_rank_memory_bytes", "gauge", "bytes", "Resident memory of that process.",
      [](const Worker& worker) { return worker.memory > 0; },
      [&](const Rank& rank) { text.sample(rank.labels, static_cast<std::int64_t>(rank.worker->memory)); });
}

}  // namespace

std::string metrics_name(const agent::NodeStatus& node) {
  return node.node.empty() ? node.host : node.node;
}

std::string metrics_text(const JobMetrics& metrics) {
  MetricsText text;
  add_job(text, metrics, {{"muster_job", metrics.answer.card.id}});
  add_nodes(text, metrics);
  add_ranks(text, metrics);
  return std::move(text).finish();
}

}  // namespace muster::launcher
