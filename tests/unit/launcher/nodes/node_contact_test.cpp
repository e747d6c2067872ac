// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/node_contact.hpp"

#include "catch.hpp"

using muster::launcher::NodeContact;
using namespace std::chrono_literals;

TEST_CASE("A node goes from its hello to its report, and says each once") {
  NodeContact node;
  CHECK(node.closed());
  node.open();
  CHECK_FALSE(node.closed());
  CHECK(node.take_hello());
  CHECK_FALSE(node.take_hello());
  CHECK_FALSE(node.instructed());
  CHECK_FALSE(node.take_listening());
  node.instruct(true);
  CHECK(node.take_listening());
  CHECK_FALSE(node.take_listening());
  CHECK(node.awaits_report());
  CHECK(node.take_report());
  CHECK_FALSE(node.take_report());
  CHECK(node.reported());
  CHECK(node.instructed());
  CHECK_FALSE(node.awaits_report());
  CHECK(node.tell_end());
  CHECK_FALSE(node.tell_end());
}

TEST_CASE("A node whose direct way was lost is heard through the coordinator") {
  NodeContact node;
  node.open();
  node.take_hello();
  node.instruct(false);
  CHECK_FALSE(node.take_listening());
  node.close();
  CHECK(node.closed());
  CHECK_FALSE(node.relayed());
  node.relay();
  CHECK_FALSE(node.closed());
  CHECK(node.relayed());
  CHECK_FALSE(node.relay_works());
  node.relay_carries();
  CHECK(node.relay_works());
  node.close();
  CHECK(node.closed());
  CHECK(node.relayed());
}

TEST_CASE("A node that sent what no muster sends is cut off once") {
  NodeContact node;
  node.open();
  CHECK(node.misbehave());
  CHECK_FALSE(node.misbehave());
  CHECK(node.broken());
  CHECK(node.agent_gone());
  CHECK(node.closed());
}

TEST_CASE("What leads to a node is late when workers, agent and guardian have had their time") {
  NodeContact node;
  node.open();
  CHECK(node.end_limit(30s, false) == 50s);
  node.take_hello();
  node.instruct(true);
  CHECK(node.end_limit(30s, false) == 50s);
  CHECK(node.end_limit(2s, true) == 22s);
  node.take_report();
  CHECK(node.end_limit(30s, false) == 15s);
  CHECK(node.end_limit(30s, true) == 85s);
}
