// SPDX-License-Identifier: Apache-2.0
#include "launcher/history/core/job_course.hpp"

#include "catch.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace job_course_test {

using namespace muster::launcher;
using namespace std::chrono_literals;
using muster::agent::NodeEvent;
using Kind = NodeEvent::Kind;

namespace {

const JobCourse::TimePoint kBegin{1000s};

NodeEvent event_of(Kind kind, int round) {
  NodeEvent event;
  event.kind = kind;
  event.round = round;
  return event;
}

std::vector<std::string> kinds(const JobCourse::Events& events) {
  std::vector<std::string> names;
  for (const JobEvent& event : events) names.push_back(event.kind);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("A round that several nodes tell of begins once") {
  JobCourse course(kBegin);
  CHECK(course.counts().state == "starting");
  CHECK(kinds(course.told("n0", event_of(Kind::round, 0), kBegin + 1s, 5000)) ==
        Names{"round_begin", "node_begin"});
  CHECK(kinds(course.told("n1", event_of(Kind::round, 0), kBegin + 2s, 6000)) == Names{"node_begin"});
  CHECK(course.counts().state == "running");
  CHECK(course.counts().round_started_at_ms == 5000);
  CHECK(course.goodput().shares(kBegin + 3s).useful == 2s);
}

TEST_CASE("A failure, the decision and the next round are one course") {
  JobCourse course(kBegin);
  course.told("n0", event_of(Kind::round, 0), kBegin, 1);
  CHECK(kinds(course.told("n1", event_of(Kind::failure, 0), kBegin + 1s, 2)) == Names{"failure"});
  CHECK(course.told("n0", event_of(Kind::failure, 0), kBegin + 1s, 2).empty());
  NodeEvent end = event_of(Kind::round_end, 0);
  end.again = true;
  end.cause = "node_failed";
  const auto events = course.told("n0", end, kBegin + 2s, 3);
  REQUIRE(kinds(events) == Names{"restart"});
  CHECK(course.told("n0", end, kBegin + 2s, 3).empty());
  CHECK(course.counts().state == "restarting");
  CHECK(course.counts().restarts.at("node_failed") == 1);
  course.told("n0", event_of(Kind::round, 1), kBegin + 3s, 4);
  CHECK(course.counts().state == "running");
  end.round = 1;
  end.again = false;
  CHECK(kinds(course.told("n0", end, kBegin + 4s, 5)) == Names{"no_restart"});
  CHECK(course.counts().restarts.at("node_failed") == 1);
  CHECK(kinds(course.ended({3, "failed", "rank 1 failed"}, kBegin + 5s)) == Names{"job_end"});
  CHECK(course.counts().state == "failed");
}

TEST_CASE("What is heard late of an earlier round is written and changes nothing") {
  JobCourse course(kBegin);
  course.told("n0", event_of(Kind::round, 0), kBegin, 1);
  course.told("n2", event_of(Kind::round, 1), kBegin + 3s, 2);
  CHECK(kinds(course.told("n1", event_of(Kind::failure, 0), kBegin + 4s, 3)) == Names{"failure"});
  NodeEvent end = event_of(Kind::round_end, 0);
  end.again = true;
  end.cause = "node_failed";
  CHECK(kinds(course.told("n0", end, kBegin + 4s, 4)) == Names{"restart"});
  CHECK(course.counts().restarts.at("node_failed") == 1);
  CHECK(kinds(course.told("n0", event_of(Kind::round, 1), kBegin + 5s, 5)) == Names{"node_begin"});
  CHECK(course.counts().state == "running");
  CHECK(course.goodput().shares(kBegin + 8s).useful == 8s);
}

TEST_CASE("A hang stands until a rank moves again, and is taken back once") {
  JobCourse course(kBegin);
  course.told("n0", event_of(Kind::round, 0), kBegin, 1);
  NodeEvent hang = event_of(Kind::hang, 0);
  hang.level = muster::rendezvous::HangLevel::is_hung;
  hang.culprits = {3};
  hang.still_ms = 60'000;
  CHECK(kinds(course.told("n0", hang, kBegin + 100s, 2)) == Names{"hang"});
  CHECK(kinds(course.told("n0", hang, kBegin + 160s, 3)) == Names{"hang"});
  CHECK(course.counts().state == "hung");
  // What is told besides does not end it.
  CHECK(kinds(course.told("n0", event_of(Kind::worker_end, 0), kBegin + 161s, 4)) == Names{"worker_end"});
  CHECK(course.counts().state == "hung");
  CHECK(course.goodput().shares(kBegin + 170s).detect == 130s);
  CHECK(kinds(course.told("n0", event_of(Kind::moves, 0), kBegin + 180s, 5)) == Names{"moves_again"});
  CHECK(course.told("n0", event_of(Kind::moves, 0), kBegin + 181s, 6).empty());
  CHECK(course.counts().state == "running");
  CHECK(course.goodput().shares(kBegin + 181s).detect == 0s);
}

TEST_CASE("A lost node is told once, and an order to end decides the state") {
  JobCourse course(kBegin);
  course.told("n0", event_of(Kind::round, 0), kBegin, 1);
  CHECK(kinds(course.node_lost("n1", "gone", true, kBegin + 1s)) == Names{"node_lost"});
  CHECK(course.node_lost("n1", "gone", true, kBegin + 1s).empty());
  CHECK(course.goodput().shares(kBegin + 2s).useful == 2s);
  CHECK(kinds(JobCourse::node_back("n2")) == Names{"node_back"});
  CHECK(kinds(course.stopped("signal", "SIGTERM", false, kBegin + 2s)) == Names{"stop"});
  NodeEvent end = event_of(Kind::round_end, 0);
  end.again = true;
  CHECK(course.told("n0", end, kBegin + 3s, 4).empty());
  CHECK(course.counts().state == "stopping");
}

TEST_CASE("A line of events is whole JSON, and never longer than a pipe takes at once") {
  NodeEvent failure = event_of(Kind::failure, 2);
  failure.rank = 1;
  failure.text = "rank 1 failed\n\xff";
  JobCourse course(kBegin);
  const JobEvent event = course.told("n1", failure, kBegin, 1).front();
  const std::string line = event_line({"train-7f3a9c", "night"}, event, 1'764'302'400'123);
  CHECK(line.back() == '\n');
  CHECK(line.find('\n') == line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  CHECK(json.at("schema") == "muster.event");
  CHECK(json.at("time") == "2025-11-28T04:00:00.123Z");
  CHECK(json.at("job") == "train-7f3a9c");
  CHECK(json.at("name") == "night");
  CHECK(json.at("kind") == "failure");
  CHECK(json.at("rank") == 1);

  JobBeginning beginning;
  beginning.arguments.assign(3000, std::string(500, '\x01'));
  beginning.program = std::string(9000, '"');
  const std::string long_line = event_line({"j", ""}, JobCourse::begun(beginning).front(), 0);
  CHECK(long_line.size() <= kEventLineMax);
  CHECK(nlohmann::json::parse(long_line).at("arguments").size() > 0);
  NodeEvent hang = event_of(Kind::hang, 2);
  for (int rank = 0; rank < 1024; ++rank) hang.culprits.push_back(16'000'000 + rank);
  hang.text = std::string(60'000, 'x');
  const std::string of_hang = event_line({"j", ""}, course.told("n0", hang, kBegin, 1).front(), 0);
  CHECK(of_hang.size() <= kEventLineMax);
  CHECK(nlohmann::json::parse(of_hang).at("culprits").size() == kEventRanksMax);
}

}  // namespace job_course_test
