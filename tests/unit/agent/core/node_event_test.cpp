// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_event.hpp"

#include "catch.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <stdexcept>
#include <string>

using muster::agent::node_event_from_json;
using muster::agent::NodeEvent;
using muster::agent::to_json;

TEST_CASE("An event of a node survives the way through JSON") {
  NodeEvent event;
  event.kind = NodeEvent::Kind::hang;
  event.round = 2;
  event.text = "rank 3 is hung \x1b[1m";
  event.level = muster::rendezvous::HangLevel::is_hung;
  event.culprits = {3, 7};
  event.still_ms = 61'000;
  event.step = 1ULL << 40U;
  CHECK(node_event_from_json(to_json(event)) == event);
  for (const auto kind : {NodeEvent::Kind::round, NodeEvent::Kind::caught_up, NodeEvent::Kind::worker_end,
                          NodeEvent::Kind::failure, NodeEvent::Kind::round_end, NodeEvent::Kind::moves}) {
    event.kind = kind;
    CHECK(node_event_from_json(to_json(event)).kind == kind);
  }
}

TEST_CASE("What is no event of a node is refused") {
  NodeEvent event;
  event.culprits.assign(muster::rendezvous::kMaxCulprits + 1, 1);
  for (const std::string& bad : {std::string("x"), std::string("[]"), std::string("{}"),
                                 std::string(R"({"culprits":7,"kind":1,"round":"x"})"), to_json(event),
                                 std::string(muster::agent::kNodeEventMax + 1, ' ')})
    CHECK_THROWS_AS(node_event_from_json(bad), std::invalid_argument);
}
