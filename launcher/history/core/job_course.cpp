// SPDX-License-Identifier: Apache-2.0
#include "launcher/history/core/job_course.hpp"

#include <utility>

namespace muster::launcher {
namespace {

using agent::NodeEvent;
using Number = std::int64_t;

std::string level_word(rendezvous::HangLevel level) {
  return level == rendezvous::HangLevel::is_hung ? "is_hung" : "may_be";
}

JobEvent worker_end(const std::string& node, const NodeEvent& event) {
  return {"worker_end",
          {{"round", Number{event.round}},
           {"node", node},
           {"rank", Number{event.rank}},
           {"pid", Number{event.pid}},
           {"exit_code", Number{event.exit_code}},
           {"signal", Number{event.signal}},
           {"after_stop", event.stopped},
           {"text", event.text}}};
}

JobEvent failure(const std::string& node, const NodeEvent& event) {
  return {"failure",
          {{"round", Number{event.round}},
           {"node", node},
           {"rank", Number{event.rank}},
           {"exit_code", Number{event.exit_code}},
           {"signal", Number{event.signal}},
           {"text", event.text},
           {"error_line", event.error_line}}};
}

JobEvent hang(const NodeEvent& event) {
  return {"hang",
          {{"round", Number{event.round}},
           {"level", level_word(event.level)},
           {"culprits", event.culprits},
           {"still_ms", event.still_ms},
           {"text", event.text}}};
}

}  // namespace

JobCourse::Events JobCourse::begun(const JobBeginning& beginning) {
  return {{"job_start",
           {{"run_id", beginning.run_id},
            {"program", beginning.program},
            {"arguments", beginning.arguments},
            {"muster_version", beginning.version},
            {"host", beginning.host},
            {"pid", Number{beginning.pid}},
            {"nodes", Number{beginning.nodes}}}}};
}

JobCourse::Events JobCourse::told(const std::string& node, const NodeEvent& event, TimePoint now,
                                  std::int64_t now_ms) {
  switch (event.kind) {
    case NodeEvent::Kind::round:
      return round(node, event, now, now_ms);
    case NodeEvent::Kind::caught_up:
      goodput_.caught_up(now);
      return {};
    case NodeEvent::Kind::worker_end:
      counts_.memory_kills += event.memory ? 1 : 0;
      return {worker_end(node, event)};
    case NodeEvent::Kind::failure:
      if (!is_over(event.round)) {
        goodput_.failed(event.step, now);
        hung_ = false;
      }
      if (event.round <= failed_round_) return {};
      failed_round_ = event.round;
      return {failure(node, event)};
    case NodeEvent::Kind::round_end:
      return round_end(event, now);
    case NodeEvent::Kind::hang:
      goodput_.hung(std::chrono::milliseconds(event.still_ms), now);
      if (counts_.state == "running") counts_.state = "hung";
      hung_ = true;
      return {hang(event)};
    case NodeEvent::Kind::moves:
      goodput_.moves();
      if (counts_.state == "hung") counts_.state = "running";
      if (!std::exchange(hung_, false)) return {};
      return {{"moves_again", {{"round", Number{event.round}}, {"text", event.text}}}};
  }
  return {};
}

JobCourse::Events JobCourse::round(const std::string& node, const NodeEvent& event, TimePoint now,
                                   std::int64_t now_ms) {
  Events events;
  if (event.round > counts_.round) {
    counts_.round = event.round;
    counts_.round_started_at_ms = now_ms;
    if (counts_.state == "starting" || counts_.state == "restarting") counts_.state = "running";
    hung_ = false;
    goodput_.round_begins(event.round, now);
    events.push_back({"round_begin",
                      {{"round", Number{event.round}},
                       {"nodes", Number{event.nodes}},
                       {"world_size", Number{event.world_size}},
                       {"restarts", Number{event.restarts}}}});
  }
  events.push_back({"node_begin",
                    {{"round", Number{event.round}},
                     {"node", node},
                     {"node_rank", Number{event.node_rank}},
                     {"first_rank", Number{event.first_rank}},
                     {"workers", Number{event.workers}}}});
  return events;
}

JobCourse::Events JobCourse::round_end(const NodeEvent& event, TimePoint now) {
  // After an order to end, a node that has obeyed is no reason for anything.
  if (event.round <= ended_round_ || ordered_) return {};
  ended_round_ = event.round;
  if (!is_over(event.round)) {
    hung_ = false;
    goodput_.decided(event.again, event.step, now);
    counts_.state = event.again ? "restarting" : "stopping";
  }
  if (event.again) ++counts_.restarts[event.cause];
  return {{event.again ? "restart" : "no_restart",
           {{"round", Number{event.round}},
            {"cause", event.cause},
            {"node", event.node},
            {"rank", Number{event.rank}},
            {"exit_code", Number{event.exit_code}},
            {"text", event.text},
            {"decision", event.decision},
            {"restarts", Number{event.restarts}},
            {"delay_ms", event.delay_ms}}}};
}

JobCourse::Events JobCourse::node_lost(const std::string& node, const std::string& cause, bool spared,
                                       TimePoint now) {
  if (!lost_.insert(node).second) return {};
  // A job that goes on without the node may not have needed it: if it did, the end of the round follows.
  if (!spared) goodput_.failed(0, now);
  return {{"node_lost", {{"node", node}, {"text", cause}, {"job_goes_on", spared}}}};
}

JobCourse::Events JobCourse::node_back(const std::string& node) {
  return {{"node_back", {{"node", node}, {"text", "going on through the coordinator"}}}};
}

JobCourse::Events JobCourse::stopped(const std::string& by, const std::string& signal, bool kill,
                                     TimePoint now) {
  goodput_.ends(now);
  ordered_ = true;
  counts_.state = "stopping";
  return {{"stop", {{"by", by}, {"signal", signal}, {"kill", kill}}}};
}

JobCourse::Events JobCourse::ended(const JobEnding& ending, TimePoint now) {
  goodput_.ends(now);
  counts_.state = ending.outcome;
  const TimeShares shares = goodput_.shares(now);
  return {{"job_end",
           {{"outcome", ending.outcome},
            {"exit_code", Number{ending.exit_code}},
            {"cause", ending.cause},
            {"duration_ms", Number{shares.total().count()}},
            {"useful_ms", Number{shares.useful.count()}}}}};
}

}  // namespace muster::launcher
