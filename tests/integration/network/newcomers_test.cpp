// SPDX-License-Identifier: Apache-2.0
// What the coordinator's service makes of connections whose owner is proved, and of what they say of
// themselves.
#include "rendezvous/wire/frame.hpp"
#include "tests/integration/control/control_fixture.hpp"
#include "tests/support/catch.hpp"

#include <netinet/in.h>
#include <poll.h>

using namespace muster;
using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

PeerPlace place_of(const std::string& node, const std::string& address) {
  PeerPlace place;
  place.identity.emplace();
  place.identity->job = "job";
  place.identity->node = node;
  place.address = resolve(address, 40000).front();
  return place;
}

/// A coordinator of `nodes` nodes without a network: each node's connection comes from where the test says.
struct Service {
  explicit Service(int nodes) : service(context.get_executor(), options(nodes), stores.opener(), nullptr) {}

  static CoordinatorOptions options(int nodes) {
    CoordinatorOptions made;
    made.run_id = "job";
    made.limits.min_nodes = made.limits.max_nodes = nodes;
    return made;
  }

  struct Agent {
    std::vector<Vouch> questions;
    std::unique_ptr<CoordinatorClient> client;
  };

  std::unique_ptr<Agent> agent(const std::string& name, const std::string& address) {
    const auto [ours, theirs] = socket_pair();
    service.add(adopt_socket(context.get_executor(), theirs), place_of(name, address));
    auto made = std::make_unique<Agent>();
    ClientOptions client_options;
    client_options.run_id = "job";
    client_options.node = client_options.host = name;
    client_options.lost_after = 0s;
    ClientEvents events;
    events.vouch = [agent = made.get()](const Vouch& question) {
      agent->questions.push_back(question);
      Vouched answer;
      answer.id = question.id;
      answer.allowed = true;
      agent->client->tell(answer);
    };
    made->client =
        std::make_unique<CoordinatorClient>(context.get_executor(), ours, client_options, std::move(events));
    return made;
  }

  bool vouched(const std::string& address) {
    std::optional<bool> answer;
    service.vouch(resolve(address, 50000).front(), resolve("10.0.0.1", 29400).front(), false,
                  [&answer](bool allowed, const std::string&) { answer = allowed; });
    run_until([&] { return answer.has_value(); });
    return *answer;
  }

  void run_until(const std::function<bool()>& done) { muster::test::run_until(context, done); }

  FakeStores stores;
  asio::io_context context{1};
  CoordinatorService service;
};

Join join_from(const std::vector<std::string>& addresses) {
  Join join = join_request(1);
  join.addresses = addresses;
  return join;
}

SocketAddress at(const std::string& host) {
  return resolve(host, 1).front();
}

}  // namespace

TEST_CASE("addresses that a node states make it answer for them, and no more") {
  Service job(2);
  const auto n1 = job.agent("n1", "10.0.0.1");
  const auto n2 = job.agent("n2", "10.0.0.2");
  const auto first = spawn_on(job.context, n1->client->join(join_from({"10.9.0.1", "10.0.0.2"}), in(20s)));
  const auto second = spawn_on(job.context, n2->client->join(join_from({"10.9.0.2"}), in(20s)));
  job.run_until([&] { return first->done && second->done; });
  CHECK(job.service.remote_nodes() == 2);
  CHECK_FALSE(job.service.has_local());
  CHECK(job.service.knows(at("10.0.0.1")));
  CHECK_FALSE(job.service.knows(at("10.9.0.1")));
  CHECK(job.vouched("10.9.0.1"));
  CHECK(n1->questions.size() == 1);
  // Another's address is asked of the one who has dialled from it.
  CHECK(job.vouched("10.0.0.2"));
  CHECK(n1->questions.size() == 1);
  CHECK(n2->questions.size() == 1);

  // What a refused join says is not heard.
  const auto again = spawn_on(job.context, n1->client->join(join_from({"10.9.0.7"}), in(20s)));
  job.run_until([&] { return again->done; });
  REQUIRE_FALSE(again->error.empty());
  CHECK_FALSE(job.vouched("10.9.0.7"));
  CHECK(job.vouched("10.9.0.1"));
}

TEST_CASE("connections with one key that say nothing replace one another") {
  Service job(2);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 6; ++i) {
    const auto [ours, theirs] = socket_pair();
    silent.emplace_back(ours);
    job.service.add(adopt_socket(job.context.get_executor(), theirs), place_of("n1", "10.0.0.1"));
  }
  const auto n2 = job.agent("n2", "10.0.0.2");
  CHECK_FALSE(job.service.has_local());
  const auto is_cut = [&](std::size_t i) {
    char byte = 0;
    return ::recv(silent[i].get(), &byte, 1, MSG_DONTWAIT) == 0;
  };
  job.run_until([&] { return is_cut(0) && is_cut(1); });
  for (std::size_t i = 2; i < silent.size(); ++i) CHECK_FALSE(is_cut(i));
}
