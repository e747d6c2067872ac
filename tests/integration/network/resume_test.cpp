// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/network/cutting_proxy.hpp"
#include "tests/integration/network/network_fixture.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/promise.hpp"

#include <algorithm>
#include <random>

using namespace muster;
using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

using Clock = std::chrono::steady_clock;

/// What docs/failures.md promises.
constexpr double kResumedSeconds = 0.2;

/// Sends the numbers 0, 1, 2, ... as bytes through a channel as fast as it takes them, and checks those that
/// come.
class Traffic {
 public:
  Traffic(std::shared_ptr<Channel> channel, std::size_t total) : channel_(std::move(channel)), total_(total) {
    Channel::Handlers handlers;
    handlers.data = [this](std::string_view bytes) { take(bytes); };
    handlers.writable = [this] { fill(); };
    handlers.closed = [this](const std::string& reason) { closed = reason.empty() ? "closed" : reason; };
    channel_->handle(std::move(handlers));
    fill();
  }

  bool complete() const { return sent_ == total_ && received == total_; }

  std::size_t received = 0;
  bool wrong = false;
  std::string closed;

 private:
  static char at(std::size_t position) { return static_cast<char>((position * 7 + position / 251) & 0xff); }

  void take(std::string_view bytes) {
    for (const char byte : bytes) wrong = wrong || byte != at(received++);
    channel_->consumed(bytes.size());
  }

  void fill() {
    while (sent_ < total_) {
      const std::size_t count = std::min({channel_->writable(), total_ - sent_, std::size_t{9000}});
      if (count == 0) return;
      std::string piece(count, '\0');
      for (char& byte : piece) byte = at(sent_++);
      channel_->send(piece);
    }
  }

  std::shared_ptr<Channel> channel_;
  std::size_t total_;
  std::size_t sent_ = 0;
};

/// A node and the launcher, each behind a line of its own, and a link between them.
struct Linked {
  Linked()
      : node_line(bench.context, bench.endpoint()),
        launcher_line(bench.context, bench.endpoint()),
        node(bench.node("n1", identity_of("n1"), node_line.endpoint())),
        launcher(bench.node("launcher", identity_of("launcher", PeerIdentity::Role::launcher),
                            launcher_line.endpoint())) {
    const auto there = bench.spawn(node.client->connected(in(20s)));
    const auto here = bench.spawn(launcher.client->connected(in(20s)));
    bench.run_until([&] { return there->done && here->done; });
    REQUIRE(there->error.empty());
    REQUIRE(here->error.empty());
  }

  /// Both ends of a link.
  std::pair<std::shared_ptr<Channel>, std::shared_ptr<Channel>> open() {
    const auto channel = launcher.client->open_channel({ChannelKind::link, "n1"});
    bench.run_until([&] { return !node.channels.empty(); });
    const auto other = node.channels.back();
    node.channels.clear();
    return {channel, other};
  }

  ~Linked() {
    // The lines go before the daemon, which would wait for who cannot be heard any more.
    node.client->close();
    launcher.client->close();
    bench.settle();
  }

  Linked(const Linked&) = delete;
  Linked& operator=(const Linked&) = delete;

  NetworkBench bench{2};
  CuttingProxy node_line;
  CuttingProxy launcher_line;
  NetworkNode& node;
  NetworkNode& launcher;
};

}  // namespace

TEST_CASE("Cuts at random moments lose nothing and double nothing") {
  Linked linked;
#ifdef MUSTER_SANITIZED
  constexpr int kCuts = 40;
#else
  constexpr int kCuts = 200;
#endif
  constexpr std::size_t kBytes = std::size_t{kCuts} * (120U << 10U);
  const auto [here, there] = linked.open();
  Traffic one(here, kBytes);
  Traffic other(there, kBytes);
  // The same in every run, and printed if it fails.
  const unsigned seed = 4711;
  std::minstd_rand random(seed);
  INFO("seed " << seed);
  int cuts = 0;
  while (!one.complete() || !other.complete()) {
    // So many bytes later, so that a faster or slower machine is cut at the same places.
    const std::size_t target = one.received + other.received + random() % (3 * kBytes / kCuts);
    linked.bench.run_until([&] {
      return one.received + other.received >= target || (one.complete() && other.complete()) ||
             !linked.node.losses.empty() || !linked.launcher.losses.empty();
    });
    REQUIRE(linked.node.losses.empty());
    REQUIRE(linked.launcher.losses.empty());
    if (cuts == kCuts) continue;
    ++cuts;
    (random() % 2 == 0 ? linked.node_line : linked.launcher_line).cut();
  }
  CHECK_FALSE(one.wrong);
  CHECK_FALSE(other.wrong);
  CHECK(cuts >= kCuts / 2);
  CHECK(linked.node.resumptions + linked.launcher.resumptions > kCuts / 4);
  CHECK(one.closed.empty());
}

TEST_CASE("a cut in the middle of a job goes unnoticed by the round, and is healed soon") {
  Linked linked;
  NetworkBench& bench = linked.bench;
  NetworkNode& n0 = bench.local_node("n0");
  const auto place0 = bench.spawn(n0.client->join(join_request(1), in(20s)));
  const auto place1 = bench.spawn(linked.node.client->join(join_request(1), in(20s)));
  bench.run_until([&] { return place0->done && place1->done; });
  REQUIRE(place1->error.empty());
  std::vector<double> took;
  for (int i = 0; i < 10; ++i) {
    const TimePoint before = Clock::now();
    const int resumed = linked.node.resumptions;
    linked.node_line.cut();
    const auto asked = bench.spawn(linked.node.client->launcher_state(in(20s)));
    bench.run_until([&] { return asked->done && linked.node.resumptions > resumed; });
    CHECK(asked->error.empty());
    took.push_back(std::chrono::duration<double>(Clock::now() - before).count());
  }
  CHECK(muster::test::late("a control connection is reset: the session goes on", kResumedSeconds, took) ==
        "");
  CHECK(n0.ends.empty());
  CHECK(linked.node.ends.empty());
}

TEST_CASE("a line that is dead without a word is replaced before the node counts as dead") {
  Linked linked;
  linked.node_line.go_dead();
  linked.bench.run_until([&] { return linked.node.resumptions > 0 || !linked.node.losses.empty(); });
  CHECK(linked.node.losses.empty());
  REQUIRE(linked.node.interruptions.size() == 1);
  CHECK_THAT(linked.node.interruptions.front(), Contains("silent"));
}

TEST_CASE("a node that cannot come back is lost after its time, on both sides") {
  Linked linked;
  NetworkBench& bench = linked.bench;
  NetworkNode& n0 = bench.local_node("n0");
  const auto place0 = bench.spawn(n0.client->join(join_request(1), in(20s)));
  const auto place1 = bench.spawn(linked.node.client->join(join_request(1), in(20s)));
  bench.run_until([&] { return place0->done && place1->done; });
  linked.node_line.refuse = true;
  linked.node_line.cut();
  const TimePoint before = Clock::now();
  bench.run_until([&] { return !n0.ends.empty() && !linked.node.losses.empty(); });
  CHECK(Clock::now() - before > 3s);
  CHECK(Clock::now() - before < 15s);
  CHECK(n0.ends.front().cause == RoundEndCause::node_lost);
  CHECK_THAT(n0.ends.front().text, Contains("n1") && Contains("silent"));
  CHECK_THAT(linked.node.losses.front(),
             Contains("5000 ms") && (Contains("could not be made again") || Contains("has been silent")));
}

TEST_CASE("a slow reader of a link holds up its sender and nobody else") {
  Linked linked;
  const auto [here, there] = linked.open();
  // `there` takes bytes and gives none back.
  std::size_t taken = 0;
  Channel::Handlers hoarder;
  hoarder.data = [&taken](std::string_view bytes) { taken += bytes.size(); };
  there->handle(std::move(hoarder));
  Traffic stuck(here, 4U << 20U);
  const auto [here2, there2] = linked.open();
  Traffic one(here2, 1U << 20U);
  Traffic other(there2, 1U << 20U);
  linked.bench.run_until([&] { return one.complete() && other.complete(); });
  CHECK_FALSE(one.wrong);
  CHECK(taken <= kChannelCreditBytes);
  CHECK_FALSE(stuck.complete());
  there->close("enough");
  linked.bench.run_until([&] { return !stuck.closed.empty(); });
  CHECK(stuck.closed == "enough");
}

TEST_CASE("only the launcher opens links, and only to nodes that are there") {
  Linked linked;
  const auto close_reason = [&](NetworkNode& from, ChannelKind kind, const std::string& to) {
    const auto channel = from.client->open_channel({kind, to});
    std::string closed;
    Channel::Handlers handlers;
    handlers.closed = [&closed](const std::string& reason) { closed = reason; };
    channel->handle(std::move(handlers));
    linked.bench.run_until([&] { return !closed.empty(); });
    return closed;
  };
  CHECK(close_reason(linked.launcher, ChannelKind::link, "n9") == "node n9 is not connected");
  CHECK(close_reason(linked.node, ChannelKind::link, "n1") == "only the launcher opens links");
  CHECK(close_reason(linked.node, ChannelKind::store, "") == "no round is running");
}

TEST_CASE("a node that comes back from another address answers for workers there, not at its old address") {
  NetworkBench bench(2);
  CuttingProxy line(bench.context, bench.endpoint());
  line.from = "127.8.0.1";
  NetworkNode& n0 = bench.local_node("n0");
  NetworkNode& n1 = bench.node("n1", identity_of("n1"), line.endpoint());
  const auto there = bench.spawn(n0.client->join(join_request(1), in(20s)));
  const auto here = bench.spawn(n1.client->join(join_request(1), in(20s)));
  bench.run_until([&] { return there->done && here->done; });
  // All addresses are this host's, so that n0 is asked in any case.
  const auto asks_n1 = [&](const std::string& host, bool expected) {
    const SocketAddress from = resolve(host, 0).front();
    const UniqueFd worker(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(worker.get(), from.data(), from.size()) == 0);
    const SocketAddress& daemon = bench.listener.address;
    REQUIRE(::connect(worker.get(), daemon.data(), daemon.size()) == 0);
    REQUIRE(::send(worker.get(), "", 1, MSG_NOSIGNAL) == 1);
    const std::size_t asked = n0.questions.size();
    const std::size_t asked_n1 = n1.questions.size();
    bench.run_until([&] { return n0.questions.size() > asked; });
    if (expected)
      bench.run_until([&] { return n1.questions.size() > asked_n1; });
    else
      bench.settle();
    return n1.questions.size() > asked_n1;
  };
  CHECK(asks_n1("127.8.0.1", true));
  CHECK_FALSE(asks_n1("127.8.0.2", false));
  line.from = "127.8.0.2";
  line.cut();
  bench.run_until([&] { return n1.resumptions == 1; });
  CHECK(asks_n1("127.8.0.2", true));
  CHECK_FALSE(asks_n1("127.8.0.1", false));
  CHECK(n1.losses.empty());
}
