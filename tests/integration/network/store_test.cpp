// SPDX-License-Identifier: Apache-2.0
// Workers' connections on the network's port, and through their agents.
#include "rendezvous/c10d/request_encoder.hpp"
#include "rendezvous/server/listen/control_port.hpp"
#include "rendezvous/server/store/store_server.hpp"
#include "tests/integration/network/network_fixture.hpp"
#include "tests/integration/store/raw_client.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <future>

using namespace muster;
using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

/// A round of n0 (the daemon's host) and n1 that runs.
struct Running {
  explicit Running(bool store_proxy)
      : bench(2, store_proxy), n0(bench.local_node("n0")), n1(bench.node("n1")) {
    const auto place0 = bench.spawn(n0.client->join(join_request(1), in(20s)));
    const auto place1 = bench.spawn(n1.client->join(join_request(1), in(20s)));
    bench.run_until([&] { return place0->done && place1->done; });
    REQUIRE(place1->error.empty());
  }

  /// Runs blocking work beside the event loop.
  template <typename Work>
  auto beside(Work work) {
    auto result = std::async(std::launch::async, std::move(work));
    bench.run_until([&] { return result.wait_for(0s) == std::future_status::ready || nap(); });
    return result.get();
  }

  SocketAddress port() const { return bench.listener.address; }

  NetworkBench bench;
  NetworkNode& n0;
  NetworkNode& n1;

 private:
  /// The loop is woken now and then to look at the work.
  bool nap() {
    asio::steady_timer timer(bench.context, 5ms);
    timer.async_wait([](boost::system::error_code) {});
    bench.context.restart();
    bench.context.run_one();
    return false;
  }
};

/// Control port, coordinator and stores in this thread; lines about peers are kept.
struct OwnPort {
  OwnPort() : service(context.get_executor(), options(), opener(), nullptr) {
    ListenSocket listener = open_listen_socket("127.0.0.1", 0, true, false);
    address = listener.address;
    ControlPortOptions port_options;
    port_options.job = "job";
    port_options.warn = [this](const std::string& line) { lines.push_back(line); };
    port.emplace(context.get_executor(), std::move(listener.fd), Secret::random(), std::move(port_options),
                 service);
  }

  static CoordinatorOptions options() {
    CoordinatorOptions made;
    made.run_id = "job";
    return made;
  }

  static StoreOpener opener() {
    return [](RoundNumber) -> OpenedStore { throw std::runtime_error("no store is wanted here"); };
  }

  void run_until_line() {
    muster::test::run_until(context, [this] { return !lines.empty(); });
  }

  asio::io_context context{1};
  SocketAddress address;
  std::vector<std::string> lines;
  CoordinatorService service;
  std::optional<ControlPort> port;
};

}  // namespace

TEST_CASE("a worker's connection is served when its agent vouches for it") {
  Running job(false);
  const std::string got = job.beside([&] {
    RawClient worker(job.port());
    worker.handshake();
    worker.ask.set("key", "value");
    worker.ask.get("key");
    worker.send();
    return worker.receive_text();
  });
  CHECK(got == "value");
  // The word of the other node may have been enough.
  job.bench.run_until([&] { return !job.n1.questions.empty(); });
  REQUIRE(job.n1.questions.size() == 1);
  CHECK(job.n1.questions.front().local_port == job.port().port());
}

TEST_CASE("a connection for which nobody vouches is closed before a byte is answered") {
  Running job(false);
  job.n0.vouches = false;
  job.n1.vouches = false;
  CHECK(job.beside([&] {
    RawClient worker(job.port());
    worker.ask.validate();
    worker.ask.ping(7);
    worker.send();
    return worker.closed_by_server();
  }));
  CHECK(job.n1.questions.size() == 1);
}

TEST_CASE("connections of a round that is over are cut, and the next one has an empty store") {
  Running job(false);
  RawClient old(job.port());
  CHECK(job.beside([&] {
    old.handshake();
    old.ask.set("key", "old");
    old.ask.get("key");
    old.send();
    return old.receive_text();
  }) == "old");
  const auto left0 = job.bench.spawn(job.n0.client->leave_round(leaving(0, RoundOutcome::stopped), in(20s)));
  const auto left1 = job.bench.spawn(job.n1.client->leave_round(leaving(0, RoundOutcome::stopped), in(20s)));
  job.bench.run_until([&] { return left0->done && left1->done; });
  CHECK(job.beside([&] { return old.closed_by_server(); }));
}

TEST_CASE("workers reach the store through their agents, and wake each other") {
  Running job(true);
  const auto open = [&](NetworkNode& node, std::string& received) {
    auto channel = node.client->open_channel({ChannelKind::store});
    Channel::Handlers handlers;
    handlers.data = [&received, weak = std::weak_ptr(channel)](std::string_view bytes) {
      received += bytes;
      if (const auto self = weak.lock()) self->consumed(bytes.size());
    };
    handlers.closed = [](const std::string& reason) { FAIL("a channel was closed: " << reason); };
    channel->handle(std::move(handlers));
    return channel;
  };
  std::string to_waiter;
  std::string to_setter;
  const auto waiter = open(job.n1, to_waiter);
  const auto setter = open(job.n0, to_setter);
  std::string bytes;
  c10d::RequestEncoder ask(bytes);
  ask.validate();
  ask.wait("late");
  waiter->send(bytes);
  bytes.clear();
  std::string get;
  c10d::RequestEncoder(get).get("late");
  ask.validate();
  // More than the channel's window, so that credit has to flow.
  const std::string value(1U << 20U, 'v');
  ask.set("late", value);
  std::size_t sent = 0;
  job.bench.run_until([&] {
    const std::size_t count = std::min(setter->writable(), bytes.size() - sent);
    setter->send(std::string_view(bytes).substr(sent, count));
    sent += count;
    if (!to_waiter.empty() && !get.empty()) waiter->send(std::exchange(get, std::string()));
    return to_waiter.size() >= 1 + 8 + value.size();
  });
  CHECK(to_waiter.substr(9) == value);
}

TEST_CASE("an agent opens no more channels than workers can need") {
  Running job(true);
  std::vector<std::shared_ptr<Channel>> channels;
  int refused = 0;
  for (int i = 0; i < 1100; ++i) {
    channels.push_back(job.n1.client->open_channel({ChannelKind::store}));
    Channel::Handlers handlers;
    handlers.closed = [&refused](const std::string&) { ++refused; };
    channels.back()->handle(std::move(handlers));
  }
  job.bench.run_until([&] { return refused >= 1100 - 1024; });
  job.bench.settle();
  CHECK(refused == 1100 - 1024);
}

TEST_CASE("whoever speaks the store's protocol before the first round is refused, torchrun's agent by name") {
  OwnPort own;
  std::string bytes;
  c10d::RequestEncoder ask(bytes);
  const UniqueFd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(peer.get(), own.address.data(), own.address.size()) == 0);
  SECTION("torchrun") {
    ask.validate();
    ask.ping(7);
    ask.compare_set("torch.rendezvous.job", "", "state");
    REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), 0) > 0);
    own.run_until_line();
    REQUIRE(own.lines.size() == 1);
    CHECK_THAT(own.lines.front(), Contains("an agent of torchrun") && Contains("muster run"));
  }
  SECTION("another") {
    ask.validate();
    ask.set("key", "value");
    REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), 0) > 0);
    ::shutdown(peer.get(), SHUT_WR);
    own.run_until_line();
    REQUIRE(own.lines.size() == 1);
    CHECK_THAT(own.lines.front(), Contains("before the job's first round is complete"));
  }
}

TEST_CASE("no request is carried out before the first round, wherever it comes from") {
  OwnPort own;
  std::string bytes;
  c10d::RequestEncoder ask(bytes);
  ask.validate();
  ask.set("key", std::string(13000, 'v'));
  for (int i = 0; i < 1600; ++i) ask.get("key");
  const UniqueFd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(peer.get(), own.address.data(), own.address.size()) == 0);
  REQUIRE(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
  own.run_until_line();
  REQUIRE(own.lines.size() == 1);
  char answer = 0;
  CHECK(::recv(peer.get(), &answer, 1, 0) <= 0);
}

TEST_CASE("before the first round store clients of the job's own hosts count as strangers") {
  OwnPort own;
  std::vector<UniqueFd> peers;
  for (int i = 0; i < 100; ++i) {
    UniqueFd& peer = peers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(peer.get(), own.address.data(), own.address.size()) == 0);
    REQUIRE(::send(peer.get(), "\0", 1, MSG_NOSIGNAL) == 1);
  }
  muster::test::run_until(own.context, [&] {
    const ControlPortCounters counters = own.port->counters();
    return counters.accepted == 100 && counters.refused + counters.strangers == 100 &&
           counters.strangers <= kMaxPendingHandshakesPerAddress;
  });
  CHECK(own.port->counters().refused >= 100 - kMaxPendingHandshakesPerAddress);
}

TEST_CASE("lines about bad peers are few, however many come") {
  OwnPort own;
  for (int i = 0; i < 300; ++i) {
    const UniqueFd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(peer.get(), own.address.data(), own.address.size()) == 0);
    REQUIRE(::send(peer.get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
    own.context.restart();
    own.context.run_for(1ms);
  }
  muster::test::run_until(own.context, [&] { return own.port->counters().accepted == 300; });
  own.run_until_line();
  CHECK(own.lines.size() >= 1);
  CHECK(own.lines.size() <= 2);
}
