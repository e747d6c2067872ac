// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/c10d/request_encoder.hpp"
#include "rendezvous/server/store/store_feed.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fake_channel.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace muster::rendezvous;
using muster::test::FakeChannel;

TEST_CASE("the clients of one node share a budget for what is under way") {
  FedStore store(64 * kMiB, 16 * kMiB);
  std::string bytes;
  c10d::RequestEncoder ask(bytes);
  ask.validate();
  ask.set("key", std::string(8 * kMiB, 'v'));
  bytes.resize(4608 * kKiB);  // the rest does not come
  const auto begin_to_set = [&](SessionId node) {
    auto channel = std::make_shared<FakeChannel>();
    store.feed(channel, {node});
    const auto data = channel->told.data;
    for (std::size_t at = 0; at < bytes.size() && !channel->closed; at += 64 * kKiB)
      data(std::string_view(bytes).substr(at, 64 * kKiB));
    return channel;
  };
  const auto elsewhere = begin_to_set(2);
  std::vector<std::shared_ptr<FakeChannel>> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(begin_to_set(1));
  CHECK_FALSE(elsewhere->closed.has_value());
  CHECK_FALSE(clients.front()->closed.has_value());
  REQUIRE(clients.back()->closed.has_value());
  CHECK(clients.back()->closed->find("requests and replies under way") != std::string::npos);
  CHECK(store.under_way(1) >= bytes.size());
  CHECK(store.under_way(1) <= 16 * kMiB);
  store.close();
  CHECK(store.under_way(1) == 0);
  CHECK(store.under_way(2) == 0);
}

TEST_CASE("it is told who waits for which key, and through which node") {
  FedStore store(kMiB);
  const auto client = [&store](const FedClient& place, const auto& ask) {
    auto channel = std::make_shared<FakeChannel>();
    store.feed(channel, place);
    std::string bytes;
    c10d::RequestEncoder encoder(bytes);
    encoder.validate();
    ask(encoder);
    channel->told.data(bytes);
    return channel;
  };
  const auto sets = client({1, 40001, 40002}, [](auto& ask) { ask.set("/epoch", "1"); });
  const auto waits = client({2, 40003, 40004}, [](auto& ask) { ask.wait("/epcoh"); });
  const auto told = store.waits(8);
  REQUIRE(told.size() == 1);
  CHECK(told[0].key == "/epcoh");
  CHECK(told[0].nearest == "/epoch");
  CHECK(told[0].node == 2);
  CHECK(told[0].peer.text() == "127.0.0.1:40003");
  CHECK(told[0].local.text() == "127.0.0.1:40004");
  CHECK(store.waits(0).empty());
  waits->told.closed("the worker's connection ended");
  CHECK(store.waits(8).empty());
}
