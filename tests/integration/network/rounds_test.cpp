// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/network/network_fixture.hpp"
#include "tests/support/catch.hpp"

using namespace muster;
using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

TEST_CASE("nodes join over TLS beside the local one and leave, and the daemon goes last") {
  auto bench = std::make_unique<NetworkBench>(3);
  NetworkNode& n0 = bench->local_node("n0");
  NetworkNode& n1 = bench->node("n1");
  NetworkNode& n2 = bench->node("n2");
  const auto hello = bench->spawn(n1.client->connected(in(20s)));
  const auto place0 = bench->spawn(n0.client->join(join_request(2), in(20s)));
  const auto place1 = bench->spawn(n1.client->join(join_request(2), in(20s)));
  const auto place2 = bench->spawn(n2.client->join(join_request(2), in(20s)));
  bench->run_until([&] { return place0->done && place1->done && place2->done && hello->done; });
  REQUIRE(place0->error.empty());
  REQUIRE(place1->error.empty());
  CHECK(hello->error.empty());
  CHECK(place1->value->world_size == 6);
  CHECK(Endpoint{place1->value->store_host, place1->value->store_port} == bench->endpoint());
  CHECK(n1.client->local_address() == "127.0.0.1");

  const auto left0 = bench->spawn(n0.client->leave_round(leaving(0, RoundOutcome::succeeded), in(20s)));
  bench->run_until([&] { return left0->done; });
  const auto left1 = bench->spawn(n1.client->leave_round(leaving(0, RoundOutcome::succeeded), in(20s)));
  const auto left2 = bench->spawn(n2.client->leave_round(leaving(0, RoundOutcome::succeeded), in(20s)));
  bench->run_until(
      [&] { return left1->done && left2->done && !n1.closings.empty() && !n2.closings.empty(); });
  CHECK(n1.closings.front().succeeded);
  CHECK(n1.losses.empty());
  bench.reset();  // waits for the daemon
}

TEST_CASE("a node cannot say that it is another one, or the launcher") {
  NetworkBench bench(2);
  NetworkNode& liar = bench.node("n2", identity_of("n1"), bench.endpoint());
  const auto hello = bench.spawn(liar.client->connected(in(20s)));
  bench.run_until([&] { return hello->done; });
  CHECK(hello->code == Errc::mend);
  CHECK_THAT(hello->error, Contains("the key is that of node n1, but the hello is of node n2"));
}
