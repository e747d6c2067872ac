// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_board.hpp"

#include "catch.hpp"

using namespace muster::launcher;
using std::chrono::seconds;
using Kind = RemoteNode::Action;
using Orders = NodeBoard::Orders;
using TimePoint = NodeBoard::TimePoint;

namespace {

const TimePoint kStart{};

HostFailure refused() {
  return {"", "ssh: connection refused", "check sshd", false};
}

std::vector<NodePlan> plans(std::size_t count) {
  std::vector<NodePlan> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i].name = "n" + std::to_string(i);
  return all;
}

NodeBoard board_of(std::size_t count, std::size_t needed, bool may_restart = true) {
  return {plans(count), needed, may_restart, seconds(30)};
}

void start(NodeBoard& board, std::size_t node, TimePoint now = kStart) {
  board.node(node).start(now, seconds(10));
}

NodeBoard started(std::size_t count, std::size_t needed, bool may_restart = true) {
  NodeBoard board = board_of(count, needed, may_restart);
  for (std::size_t i = 0; i < count; ++i) start(board, i);
  return board;
}

Orders greet(NodeBoard& board, std::size_t node) {
  board.node(node).greeting();
  return board.greeted(node);
}

Orders give_up(NodeBoard& board, std::size_t node) {
  CHECK(board.reported(node, kStart));
  return board.gave_up(node);
}

}  // namespace

TEST_CASE("The coordinator's node gets its part when all have greeted, the others at once") {
  NodeBoard board = started(3, 3);
  CHECK(greet(board, 0).empty());
  CHECK(greet(board, 1) == Orders{{Kind::send_spec, 1}});
  CHECK(greet(board, 2) == Orders{{Kind::send_spec, 2}, {Kind::send_spec, 0}});
  CHECK(board.complete());
  CHECK(board.listening() == Orders{{Kind::send_coordinator, 1}, {Kind::send_coordinator, 2}});
  CHECK(board.listening().empty());
  for (std::size_t i = 0; i < 3; ++i) CHECK(board.reported(i, kStart));
  CHECK_FALSE(board.over());
  for (std::size_t i = 0; i < 3; ++i) board.ended(i, kStart);
  CHECK(board.over());
  CHECK(board.failures().empty());
}

TEST_CASE("The coordinator's node may be the last, or alone") {
  NodeBoard board = started(2, 2);
  CHECK(greet(board, 1) == Orders{{Kind::send_spec, 1}});
  CHECK(greet(board, 0) == Orders{{Kind::send_spec, 0}});
  NodeBoard alone = started(1, 1);
  CHECK(greet(alone, 0) == Orders{{Kind::send_spec, 0}});
  CHECK(alone.listening().empty());
}

TEST_CASE("A copy of muster that is on its way is what a node is waited for") {
  NodeBoard board = started(2, 2);
  greet(board, 0);
  board.node(1).copying(1'450'000, 12'000'000, kStart);
  CHECK(board.waiting_text(kStart) ==
        "1 of 2 nodes have answered; waiting for n1 (copying muster: 1.5 of 12.0 MB)");
  board.node(1).refused("ssh: closed");
  start(board, 1);
  CHECK(board.waiting_text(kStart) ==
        "1 of 2 nodes have answered; waiting for n1 (connecting for 0 s, try 2)");
}

TEST_CASE("One host that cannot be started ends the job; others that fail soon after are named, too") {
  NodeBoard board = started(5, 5);
  CHECK(greet(board, 0).empty());
  CHECK(greet(board, 1) == Orders{{Kind::send_spec, 1}});
  CHECK(board.start_failed(2, refused(), kStart) == Orders{{Kind::cut, 0}, {Kind::stop, 1}});
  CHECK(board.start_failed(3, refused(), kStart + seconds(1)).empty());
  CHECK(board.tick(kStart + seconds(1)).empty());
  const TimePoint due = board.next_tick().value();
  CHECK(due <= kStart + seconds(2));
  CHECK(board.tick(due) == Orders{{Kind::cut, 4}});
  CHECK_FALSE(board.next_tick());
  // Cut by us: no failure of that host.
  CHECK(board.start_failed(4, refused(), due).empty());
  REQUIRE(board.failures().size() == 2);
  CHECK(board.failures()[0].node == "n2");
  CHECK(board.failures()[1].node == "n3");
  CHECK_FALSE(board.over());
  CHECK(board.lost(0, {}).empty());
  CHECK(board.reported(1, kStart));
  board.ended(1, kStart);
  CHECK(board.over());
  CHECK(board.failures().size() == 2);
}

TEST_CASE("A failure counts once") {
  NodeBoard board = started(1, 1);
  CHECK(board.start_failed(0, refused(), kStart).empty());
  CHECK(board.start_failed(0, refused(), kStart).empty());
  CHECK(board.lost(0, refused()).empty());
  CHECK(board.failures().size() == 1);
}

TEST_CASE("A node that answers after the decision to end is cut") {
  NodeBoard board = started(2, 2);
  CHECK(board.start_failed(0, refused(), kStart).empty());
  CHECK(greet(board, 1) == Orders{{Kind::cut, 1}});
}

TEST_CASE("Nodes beyond those that are needed may fail to start") {
  NodeBoard board = started(3, 2);
  CHECK(greet(board, 0).empty());
  CHECK(greet(board, 1) == Orders{{Kind::send_spec, 1}});
  CHECK(board.start_failed(2, refused(), kStart) == Orders{{Kind::send_spec, 0}});
  CHECK_FALSE(board.stopping());
  CHECK(board.lost(1, {"", "gone", "", false}) == Orders{{Kind::stop, 0}});
  CHECK(board.failures()[1].lost);

  NodeBoard without_coordinator = started(3, 2);
  CHECK(without_coordinator.start_failed(0, refused(), kStart).empty());
  CHECK(without_coordinator.stopping());
}

TEST_CASE("A lost node that the job could do without takes a restart") {
  for (const bool may_restart : {true, false}) {
    NodeBoard board = started(3, 2, may_restart);
    for (std::size_t i = 0; i < 3; ++i) greet(board, i);
    CHECK(board.lost(2, {"", "gone", "", false}).empty());
    const std::string text = board.spared_text();
    CHECK(text.find("2 of 3 nodes are left, and --nnodes asks for 2 at least") != std::string::npos);
    CHECK((text.find("no restart is left (--max-restarts 0)") == std::string::npos) == may_restart);
  }
}

TEST_CASE("A node that is lost ends the others") {
  NodeBoard board = started(3, 3);
  greet(board, 0);
  greet(board, 1);
  greet(board, 2);
  board.listening();
  CHECK(board.lost(1, {"", "killed", "", false}) == Orders{{Kind::stop, 0}, {Kind::stop, 2}});
  REQUIRE(board.failures().size() == 1);
  CHECK(board.failures()[0] == HostFailure{"n1", "killed", "", true});
  CHECK(board.unreported() == std::vector<std::string>{"n0", "n2"});
}

TEST_CASE("A node that reports that it cannot do its part ends the others") {
  NodeBoard board = started(3, 3);
  greet(board, 0);
  greet(board, 1);
  greet(board, 2);
  CHECK(give_up(board, 1) == Orders{{Kind::stop, 0}, {Kind::stop, 2}});
  CHECK(give_up(board, 2).empty());
  CHECK(board.failures().empty());
  NodeBoard elastic = started(3, 2);
  for (std::size_t i = 0; i < 3; ++i) greet(elastic, i);
  CHECK(give_up(elastic, 1).empty());
  CHECK(give_up(elastic, 2) == Orders{{Kind::stop, 0}});
}

TEST_CASE("A stop reaches every node in the way that it understands") {
  NodeBoard board = board_of(5, 5);
  for (std::size_t i = 0; i < 4; ++i) start(board, i);
  greet(board, 0);
  greet(board, 1);
  greet(board, 2);
  CHECK(board.reported(2, kStart));
  CHECK(board.stop() == Orders{{Kind::cut, 0}, {Kind::stop, 1}, {Kind::cut, 3}});
  CHECK(board.node(4).phase() == RemoteNode::Phase::over);
  CHECK(board.kill() == Orders{{Kind::cut, 0}, {Kind::kill, 1}, {Kind::cut, 3}});
  CHECK(board.cut_all() == Orders{{Kind::cut, 0}, {Kind::cut, 1}, {Kind::cut, 2}, {Kind::cut, 3}});
  CHECK(board.start_failed(3, {}, kStart).empty());
  for (std::size_t i = 0; i < 3; ++i) board.lost(i, {});
  CHECK(board.over());
  CHECK(board.failures().empty());
}

TEST_CASE("The board says which nodes are waited for, and why") {
  NodeBoard board = board_of(4, 4);
  start(board, 0);
  greet(board, 0);
  start(board, 1);
  start(board, 2);
  board.node(2).refused("ssh: the server closed the connection");
  CHECK(board.waiting_text(kStart + seconds(4)) ==
        "1 of 4 nodes have answered; waiting for n1 (connecting for 4 s), n2 (ssh: the server closed the "
        "connection), n3 (its turn has not come)");
  start(board, 2, kStart + seconds(4));
  CHECK(board.waiting_text(kStart + seconds(5)).find("n2 (connecting for 1 s, try 2)") != std::string::npos);
  start(board, 3);
  for (std::size_t i = 1; i < 4; ++i) greet(board, i);
  CHECK(board.waiting_text(kStart).empty());

  NodeBoard many = board_of(100, 100);
  const std::string text = many.waiting_text(kStart);
  CHECK(text.find("n7 ") != std::string::npos);
  CHECK(text.find("n8 ") == std::string::npos);
  CHECK(text.ends_with(" and 92 more"));
}

TEST_CASE("What leads to a node is late when workers, agent and guardian have had their time") {
  NodeBoard board = started(2, 2);
  CHECK(board.end_limit(0) == seconds(50));
  NodeBoard patient = board;
  patient.set_grace(seconds(90));
  CHECK(patient.end_limit(0) == seconds(110));
  greet(board, 1);
  greet(board, 0);
  CHECK(board.end_limit(0) == seconds(50));
  CHECK(board.reported(0, kStart));
  CHECK_FALSE(board.reported(0, kStart));
  // The coordinator is there for the other node, too.
  CHECK(board.node(0).next_tick() == kStart + seconds(85));
  CHECK(board.reported(1, kStart + seconds(1)));
  CHECK(board.node(1).next_tick() == kStart + seconds(16));
  CHECK(board.node(0).next_tick() == kStart + seconds(16));
}

TEST_CASE("The end of the coordinator's node limits the time of the others") {
  NodeBoard board = started(3, 3);
  for (const std::size_t i : {1U, 2U, 0U}) greet(board, i);
  CHECK(board.reported(0, kStart));
  CHECK(board.reported(2, kStart));
  board.ended(0, kStart);
  CHECK(board.node(0).phase() == RemoteNode::Phase::over);
  CHECK(board.node(1).next_tick() == kStart + seconds(5));
  CHECK(board.node(2).next_tick() == kStart + seconds(15));
  // No end of another node does so.
  NodeBoard other = started(2, 2);
  for (const std::size_t i : {1U, 0U}) greet(other, i);
  CHECK(other.reported(1, kStart));
  other.ended(1, kStart);
  CHECK_FALSE(other.node(0).next_tick());
}
