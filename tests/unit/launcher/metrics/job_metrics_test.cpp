// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/core/job_metrics.hpp"

#include "catch.hpp"
#include "launcher/metrics/core/metrics_text.hpp"

#include <chrono>
#include <string>
#include <utility>

namespace job_metrics_test {

using namespace muster::launcher;
using namespace std::chrono_literals;

namespace {

JobMetrics metrics_of_two() {
  JobMetrics metrics;
  metrics.answer.card.id = "train-7f3a9c";
  metrics.answer.card.program = "say \"\\\n";
  metrics.now_ms = 1'764'302'400'123;
  metrics.counts.state = "hung";
  metrics.counts.round_started_at_ms = 1'764'302'000'000;
  metrics.counts.restarts["hung"] = 2;
  metrics.settled.restart = 1500ms;
  metrics.heard_ms_ago["n0"] = 20;
  muster::agent::NodeStatus node;
  node.host = "n0";
  node.hang.level = muster::rendezvous::HangLevel::is_hung;
  node.hang.culprits = {1};
  for (int rank = 0; rank < 2; ++rank) {
    muster::agent::WorkerStatus worker;
    worker.rank = rank;
    worker.does = "waits for a lock";
    worker.still_ms = 61'000;
    worker.cpu_ms = 1234;
    worker.memory = 1U << 20U;
    node.workers.push_back(worker);
  }
  node.workers[1].step = 40;
  metrics.answer.nodes.push_back(node);
  return metrics;
}

}  // namespace

TEST_CASE("A family has its type, unit and help before its samples, and the text an end") {
  MetricsText text;
  text.family("muster_x", "counter", "", "Help.");
  text.sample({}, 3);
  text.family("muster_y_seconds", "gauge", "seconds", "More.");
  text.seconds({{"a", "b\"\\\n\xff"}}, 1005);
  CHECK(std::move(text).finish() ==
        "# TYPE muster_x counter\n# HELP muster_x Help.\nmuster_x_total 3\n"
        "# TYPE muster_y_seconds gauge\n# UNIT muster_y_seconds seconds\n# HELP muster_y_seconds More.\n"
        "muster_y_seconds{a=\"b\\\"\\\\\\n?\"} 1.005\n# EOF\n");
}

TEST_CASE("The metrics of a job are those of its picture") {
  const std::string text = metrics_text(metrics_of_two());
  CHECK_THAT(text, Contains("muster_job_info{muster_job=\"train-7f3a9c\",name=\"\",run_id=\"\",program=\"say "
                            "\\\"\\\\\\n\",host=\"\",version=\"\"} 1\n"));
  CHECK_THAT(text, Contains("muster_job_state{muster_job=\"train-7f3a9c\",state=\"hung\"} 1\n"));
  CHECK_THAT(text, Contains("muster_job_state{muster_job=\"train-7f3a9c\",state=\"running\"} 0\n"));
  CHECK_THAT(text, Contains("muster_restarts_total{muster_job=\"train-7f3a9c\",cause=\"hung\"} 2\n"));
  CHECK_THAT(text, Contains("muster_restarts_total{muster_job=\"train-7f3a9c\",cause=\"node_lost\"} 0\n"));
  CHECK_THAT(text,
             Contains("muster_lost_seconds_total{muster_job=\"train-7f3a9c\",phase=\"restart\"} 1.500\n"));
  CHECK_THAT(text, Contains("muster_last_update_seconds{muster_job=\"train-7f3a9c\"} 1764302400.123\n"));
  CHECK_THAT(text,
             Contains("muster_node_last_heard_seconds{muster_job=\"train-7f3a9c\",node=\"n0\"} 0.020\n"));
  const std::string of_rank = "{muster_job=\"train-7f3a9c\",node=\"n0\",rank=\"1\"} ";
  CHECK_THAT(text, Contains("muster_rank_hung" + of_rank + "1\n"));
  CHECK_THAT(text, Contains("node=\"n0\",rank=\"0\"} 0\n"));
  CHECK_THAT(text, Contains("muster_rank_stalled_seconds" + of_rank + "61.000\n"));
  CHECK_THAT(text, Contains("muster_rank_step" + of_rank + "40\n"));
  CHECK_THAT(text, Contains("muster_rank_cpu_seconds_total" + of_rank + "1.234\n"));
  CHECK_THAT(text, Contains("muster_rank_memory_bytes" + of_rank + "1048576\n"));
}

TEST_CASE("Where all ranks agree, all of them hang, and what is not known is left out") {
  JobMetrics metrics = metrics_of_two();
  metrics.answer.nodes[0].hang.culprits.clear();
  CHECK_THAT(metrics_text(metrics), Contains("node=\"n0\",rank=\"0\"} 1\n"));
  for (auto& worker : metrics.answer.nodes[0].workers) worker = {};
  metrics.counts.round_started_at_ms = 0;
  const std::string text = metrics_text(metrics);
  for (const char* name : {"muster_rank", "muster_round_start"}) CHECK_THAT(text, !Contains(name));
}

TEST_CASE("Only so many ranks have metrics of their own") {
  JobMetrics metrics = metrics_of_two();
  metrics.answer.nodes[0].workers.assign(kMetricsRanksMost + 1, metrics.answer.nodes[0].workers[0]);
  metrics.answer.nodes[0].workers.back().rank = 99'999;
  const std::string text = metrics_text(metrics);
  CHECK_THAT(text, !Contains("99999"));
  CHECK_THAT(text, Contains("muster_ranks_left_out{muster_job=\"train-7f3a9c\"} 1\n"));
}

}  // namespace job_metrics_test
