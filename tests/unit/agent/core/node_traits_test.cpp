// SPDX-License-Identifier: Apache-2.0
#include "agent/core/node_traits.hpp"

#include "tests/support/catch.hpp"

namespace {

using namespace muster::agent;

AgentSpec spec_of(NodeForm form, bool coordinator) {
  AgentSpec spec;
  spec.host = "host7";
  spec.node.name = "n1";
  spec.node.form = std::move(form);
  spec.node.coordinator = coordinator;
  return spec;
}

TEST_CASE("The only node of a job has no network, and texts need not name it") {
  const NodeTraits traits(spec_of(AloneNode{}, false));
  CHECK_FALSE(traits.networked);
  CHECK_FALSE(traits.distant_launcher);
  CHECK(traits.speaks_for_job);
  CHECK(traits.name == "host7");
  CHECK(traits.of_node.empty());
  CHECK(traits.on_host.empty());
}

TEST_CASE("Of the nodes that one launcher started, the coordinator's speaks for the job") {
  for (const bool coordinator : {false, true}) {
    const NodeTraits traits(spec_of(StartedNode{}, coordinator));
    CHECK(traits.networked);
    CHECK(traits.distant_launcher);
    CHECK(traits.speaks_for_job == coordinator);
    CHECK(traits.name == "n1");
    CHECK(traits.of_node == " of n1");
    CHECK(traits.on_host == " on host7");
  }
}

TEST_CASE("A peer speaks to its own launcher, and has its host's name in texts") {
  for (const bool coordinator : {false, true}) {
    const NodeTraits traits(spec_of(PeerNode{}, coordinator));
    CHECK(traits.networked);
    CHECK_FALSE(traits.distant_launcher);
    CHECK(traits.speaks_for_job);
    CHECK(traits.name == "host7");
    CHECK(traits.of_node == " of host7");
    CHECK(traits.on_host == " on host7");
  }
}

}  // namespace
