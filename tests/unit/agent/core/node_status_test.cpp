// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_status.hpp"

#include "catch.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <stdexcept>

using namespace muster::agent;
using muster::rendezvous::Activity;
using muster::rendezvous::HangLevel;
using muster::rendezvous::WaitKind;

namespace {

NodeStatus status_of_two() {
  NodeStatus status;
  status.host = "n00";
  status.round = 3;
  status.doing = "works";
  WorkerStatus worker;
  worker.rank = 7;
  worker.pid = 41;
  worker.state = "running \x1b[31m";
  worker.cpu_ms = 1500;
  worker.memory = std::uint64_t{5} << 33;
  worker.now = "in all_reduce #12";
  worker.does = "waits for all_reduce #12 since 5 s";
  worker.activity = Activity::waits;
  worker.wait = WaitKind::communication;
  worker.since_ms = 5000;
  worker.still_ms = 6000;
  worker.place = "train.py:41 in step";
  worker.output_ms = 7000;
  worker.gpu = "3";
  ProcessPicture picture;
  picture.name = "python3";
  picture.stacks.threads.push_back({9, true, true, false, false, {{"train.py", 41, "step"}}});
  worker.processes.push_back(picture);
  status.workers = {worker, worker};
  status.hang = {HangLevel::is_hung, "rank 7 is hung", 40'000, {7}};
  status.ended_rounds = {{2, "rank 3 on n1 failed (exit code 1)", "restarting all workers"}};
  return status;
}

}  // namespace

TEST_CASE("A node's status survives the way through JSON") {
  const NodeStatus status = status_of_two();
  const std::string text = to_json(status);
  CHECK(text.find('\x1b') == std::string::npos);
  const NodeStatus read = node_status_from_json(text);
  CHECK(to_json(read) == text);
  REQUIRE(read.workers.size() == 2);
  CHECK(read.workers[1].memory == status.workers[1].memory);
  CHECK(read.workers[1].does == status.workers[1].does);
  CHECK(read.workers[1].activity == Activity::waits);
  CHECK(read.workers[1].wait == WaitKind::communication);
  CHECK(read.workers[1].output_ms == 7000);
  CHECK(read.hang.level == HangLevel::is_hung);
  CHECK(read.hang.culprits == std::vector<int>{7});
  CHECK(read.ended_rounds.at(0).cause == status.ended_rounds[0].cause);
  CHECK(read.workers[1].processes.at(0).stacks.threads.at(0).frames.at(0) == Frame{"train.py", 41, "step"});
}

TEST_CASE("A status that is too long goes without stacks, then without workers, and says so") {
  const NodeStatus status = status_of_two();
  const std::string whole = to_json(status);
  CHECK(to_json_within(status, whole.size()) == whole);
  const NodeStatus without_stacks = node_status_from_json(to_json_within(status, whole.size() - 1));
  REQUIRE(without_stacks.workers.size() == 2);
  CHECK(without_stacks.workers[0].processes.empty());
  CHECK(without_stacks.workers[0].rank == 7);
  CHECK(without_stacks.doing.starts_with("works; the stacks of its workers are left out"));
  const std::string text = to_json_within(status, 350);
  CHECK(text.size() <= 350);
  CHECK(node_status_from_json(text).workers.empty());
  CHECK(node_status_from_json(text).ended_rounds.empty());
  CHECK(node_status_from_json(text).hang.text == "rank 7 is hung");
  CHECK(node_status_from_json(text).doing.starts_with("works; its workers are left out"));
}

TEST_CASE("A question is read as it was written, and from another version with defaults") {
  NodeQuery query;
  query.stacks = true;
  query.native = true;
  query.ranks = {0, 11};
  query.signal = 10;
  query.notice = true;
  const NodeQuery read = node_query_from_json(to_json(query));
  CHECK(read.stacks);
  CHECK_FALSE(read.helpers);
  CHECK(read.native);
  CHECK(read.ranks == query.ranks);
  CHECK(read.signal == 10);
  CHECK(read.notice);
  CHECK_FALSE(node_query_from_json("{\"new\":1}").stacks);
}

TEST_CASE("What no agent and no muster sends is refused") {
  for (const char* text : {"", "[]", "1", "{\"ranks\":[-1]}", "{\"ranks\":\"0\"}", "{\"stacks\":2}", "{",
                           "{\"signal\":-1}", "{\"signal\":65}"})
    CHECK_THROWS_AS(node_query_from_json(text), std::invalid_argument);
  CHECK_THROWS_AS(node_query_from_json(std::string(kNodeQueryMax, ' ') + "{}"), std::invalid_argument);
  for (const char* text : {"", "[]", "{\"workers\":{}", "{\"workers\":[1]}", "{\"pid\":\"1\"}",
                           "{\"workers\":[{\"processes\":[{}]}]}"})
    CHECK_THROWS_AS(node_status_from_json(text), std::invalid_argument);
  std::string many = "{\"workers\":[{}";
  for (int i = 0; i < muster::rendezvous::kMaxWorkersPerNode; ++i) many += ",{}";
  CHECK_THROWS_AS(node_status_from_json(many + "]}"), std::invalid_argument);
  std::string rounds = "{\"ended_rounds\":[{}";
  for (std::size_t i = 1; i < kEndedRoundsMax; ++i) rounds += ",{}";
  CHECK(node_status_from_json(rounds + "]}").ended_rounds.size() == kEndedRoundsMax);
  CHECK_THROWS_AS(node_status_from_json(rounds + ",{}]}"), std::invalid_argument);
}

TEST_CASE("Where there was no time for stacks, it is said what to do") {
  NodeStatus status = status_of_two();
  status.workers[0].processes[0].stacks.error = kNoTime;
  status.workers[1].processes[0].native.emplace().error = kNoTime;
  advise_where_late(status.workers);
  advise_where_late(status.workers);  // once is enough
  const std::string advised = "there was no time for it; ask for fewer ranks: muster stacks JOB --rank N";
  CHECK(status.workers[0].processes[0].stacks.error == advised);
  CHECK(status.workers[1].processes[0].native->error == advised);
  CHECK(status.workers[1].processes[0].stacks.error.empty());
  status.workers.resize(1);
  status.workers[0].processes[0].stacks.error = kNoTime;
  advise_where_late(status.workers);
  CHECK(status.workers[0].processes[0].stacks.error == "there was no time for it; ask again");
}
