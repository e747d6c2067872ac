// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "rendezvous/wire/frame.hpp"
#include "tests/integration/control/control_fixture.hpp"

#include <boost/asio/co_spawn.hpp>
#include <unistd.h>

using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

JobLimits nodes(int count, Milliseconds join_timeout = 60s) {
  JobLimits limits;
  limits.min_nodes = limits.max_nodes = count;
  limits.join_timeout = join_timeout;
  return limits;
}

}  // namespace

TEST_CASE("Two nodes form a round, fail it and form the next with a fresh store") {
  Bench bench(nodes(2));
  auto a = bench.node("a");
  auto b = bench.node("b");
  const auto first = bench.spawn(a->client->join(join_request(2), in(20s)));
  bench.run_until([&] { return !a->statuses.empty(); });
  CHECK_FALSE(first->done);
  CHECK(contains(a->statuses.back().text, "1 of 2 nodes joined; waiting for 1 more"));
  const auto second = bench.spawn(b->client->join(join_request(3), in(20s)));
  bench.run_until([&] { return first->done && second->done; });
  REQUIRE(first->error.empty());
  CHECK(first->value->first_rank == 0);
  CHECK(first->value->world_size == 5);
  CHECK(second->value->first_rank == 2);
  CHECK(second->value->node_rank == 1);
  CHECK(second->value->store_port == 20000);

  a->client->tell(failing(0, "rank 1: exit code 3"));
  bench.run_until([&] { return !b->ends.empty(); });
  CHECK(b->ends[0].node == "a");
  CHECK(contains(b->ends[0].text, "exit code 3"));
  CHECK(a->ends.empty());
  CHECK(bench.stores.open_now == 1);
  const auto left_b = bench.spawn(b->client->leave_round(leaving(0, RoundOutcome::stopped), in(20s)));
  bench.run_until([&] { return left_b->done; });
  const auto again_b = bench.spawn(b->client->join(join_request(3, 1), in(20s)));
  bench.run_until([&] { return !b->statuses.empty(); });
  CHECK(bench.stores.opened == 1);
  const auto left_a = bench.spawn(a->client->leave_round(leaving(0, RoundOutcome::failed), in(20s)));
  bench.run_until([&] { return left_a->done; });
  CHECK_FALSE(again_b->done);
  const auto again_a = bench.spawn(a->client->join(join_request(2, 1), in(20s)));
  bench.run_until([&] { return again_a->done && again_b->done; });
  REQUIRE(again_a->error.empty());
  CHECK(again_a->value->round == 1);
  CHECK(again_a->value->node_rank == 0);
  CHECK(again_b->value->node_rank == 1);
  CHECK(bench.stores.opened == 2);
  CHECK(bench.stores.most_open == 1);
}

TEST_CASE("A node that dies ends the round for the others and is named") {
  Bench bench(nodes(2));
  auto a = bench.node("a");
  auto b = bench.node("b");
  const auto first = bench.spawn(a->client->join(join_request(1), in(20s)));
  const auto second = bench.spawn(b->client->join(join_request(1), in(20s)));
  bench.run_until([&] { return first->done && second->done; });
  a->client.reset();
  bench.run_until([&] { return !b->ends.empty(); });
  CHECK(b->ends[0].cause == RoundEndCause::node_lost);
  CHECK(b->ends[0].node == "a");
  CHECK(contains(b->ends[0].text, "testhost"));
  CHECK(bench.stores.open_now == 1);
}

TEST_CASE("A node that leaves something unread in its socket pair has left at once") {
  MembershipLimits limits;
  limits.suspect_after = 1h;
  limits.dead_after = 1h;
  Bench bench(nodes(2), limits);
  const auto [ours, theirs] = socket_pair();
  bench.service->add(adopt_socket(bench.context.get_executor(), theirs));
  Hello hello;
  hello.run_id = "job";
  hello.node = "a";
  const std::string said = encode_frame(to_json(hello)) + encode_frame(to_json(join_request(1)));
  REQUIRE(::write(ours, said.data(), said.size()) == static_cast<ssize_t>(said.size()));
  auto b = bench.node("b");
  const auto place = bench.spawn(b->client->join(join_request(1), in(20s)));
  bench.run_until([&] { return place->done; });
  ::close(ours);  // with the answers to its hello and its join in it: the other end sees a reset
  bench.run_until([&] { return !b->ends.empty() && !bench.ended.empty(); });
  CHECK(b->ends[0].cause == RoundEndCause::node_lost);
  CHECK(b->ends[0].node == "a");
  CHECK(contains(bench.ended[0], "reset"));
}

TEST_CASE("The answer to leaving a round is told before a round's end that came in the same packet") {
  boost::asio::io_context context(1);
  const auto [ours, theirs] = socket_pair();
  std::vector<std::string> told;
  ClientOptions options;
  options.run_id = "job";
  options.node = "a";
  ClientEvents events;
  events.left = [&told](const Left&) { told.emplace_back("left"); };
  events.round_ended = [&told](const RoundEnd&) { told.emplace_back("round ended"); };
  CoordinatorClient client(context.get_executor(), theirs, options, std::move(events));
  LeaveRound leave;
  leave.round = 3;
  boost::asio::co_spawn(context, client.leave_round(leave, in(20s)),
                        [&told](const std::exception_ptr& error, const Left&) {
                          told.emplace_back(error ? "failed" : "left the round");
                        });
  HelloOk greeting;
  greeting.run_id = "job";
  Left left;
  left.round = 3;
  left.next = NextStep::wait;
  RoundEnd end;
  end.round = 3;
  end.again = true;
  const std::string said =
      encode_frame(to_json(greeting)) + encode_frame(to_json(left)) + encode_frame(to_json(end));
  REQUIRE(::write(ours, said.data(), said.size()) == static_cast<ssize_t>(said.size()));
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (told.size() < 3 && std::chrono::steady_clock::now() < limit) context.run_one_for(1s);
  ::close(ours);
  CHECK(told == std::vector<std::string>{"left", "round ended", "left the round"});
}

TEST_CASE("Too few nodes end the job: they hear why, and are refused from then on") {
  Bench bench(nodes(2, 100ms));
  auto a = bench.node("a");
  const auto first = bench.spawn(a->client->join(join_request(1), in(20s)));
  bench.run_until([&] { return first->done; });
  CHECK(first->code == Errc::job_over);
  CHECK(contains(first->error, "1 of 2 nodes joined"));
  CHECK(contains(first->error, "join_timeout"));
  REQUIRE(a->closings.size() == 1);
  CHECK(contains(a->closings[0], "1 of 2 nodes joined"));
  const auto late = bench.spawn(a->client->join(join_request(1), in(20s)));
  bench.run_until([&] { return late->done; });
  CHECK(late->code == Errc::job_over);
}

TEST_CASE("A deadline of the caller ends its wait, and a place that comes later is given back") {
  Bench bench(nodes(2));
  auto a = bench.node("a");
  const auto first = bench.spawn(a->client->join(join_request(1), in(50ms)));
  bench.run_until([&] { return first->done; });
  CHECK(first->code == Errc::deadline);
  auto b = bench.node("b");
  const auto second = bench.spawn(b->client->join(join_request(1), in(20s)));
  bench.run_until([&] { return !b->ends.empty(); });
  CHECK(b->ends[0].node == "a");
  CHECK(b->ends[0].cause == RoundEndCause::node_left);
}

TEST_CASE("A store that cannot open is an error of the join, with its whole text") {
  Bench bench(nodes(1));
  bench.stores.failure = "127.0.0.1:29500 is in use by pid 7; choose another --master-port";
  auto a = bench.node("a");
  const auto first = bench.spawn(a->client->join(join_request(1), in(20s)));
  bench.run_until([&] { return first->done; });
  CHECK(first->code == Errc::environment);
  CHECK(first->error == bench.stores.failure);
  bench.stores.failure.clear();
  const auto second = bench.spawn(a->client->join(join_request(1), in(20s)));
  bench.run_until([&] { return second->done; });
  CHECK(second->error.empty());
  CHECK(second->value->round == 0);
}
