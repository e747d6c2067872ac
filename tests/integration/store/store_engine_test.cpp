// SPDX-License-Identifier: Apache-2.0
// What the engine does in one turn, with nothing else in the thread.
#include "rendezvous/server/store/store_engine.hpp"

#include "catch.hpp"
#include "rendezvous/c10d/request_encoder.hpp"

#include <malloc.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace muster;
using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

StoreServerOptions without_listener() {
  StoreServerOptions options;
  options.listen = false;
  return options;
}

/// Zero under a sanitizer.
std::size_t heap_bytes() {
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

/// A client in the engine's own thread.
class Client {
 public:
  explicit Client(StoreEngine& engine) : engine_(engine) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
      throw std::runtime_error("socketpair");
    fd_.reset(ends[0]);
    // Each from an address of its own: of one address little is logged.
    static int last = 0;
    engine_.adopt(UniqueFd(ends[1]), resolve("127.0.0." + std::to_string(last++ % 254 + 1), 1).front());
    ask.validate();
  }

  /// All that was asked, while the engine turns.
  void send() {
    std::string_view rest = bytes_;
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!rest.empty() && std::chrono::steady_clock::now() < deadline) {
      const ssize_t count = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (count > 0) rest.remove_prefix(static_cast<std::size_t>(count));
      if (count < 0 && errno != EAGAIN) break;
      if (!rest.empty()) engine_.turn();
    }
    bytes_.clear();
    REQUIRE(rest.empty());
  }

  bool closed_by_engine() {
    std::string space(1U << 20U, '\0');
    ssize_t count = 0;
    while ((count = ::recv(fd_.get(), space.data(), space.size(), 0)) > 0) {
    }
    return count == 0;
  }

 private:
  StoreEngine& engine_;
  UniqueFd fd_;
  std::string bytes_;

 public:
  c10d::RequestEncoder ask{bytes_};
};

std::vector<std::unique_ptr<Client>> clients_of(StoreEngine& engine, std::size_t count) {
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < count; ++i) clients.push_back(std::make_unique<Client>(engine));
  return clients;
}

}  // namespace

TEST_CASE("a turn ends soon, and the next one goes on with those that have not been served") {
  StoreEngine engine(without_listener());
  Client filler(engine);
  constexpr std::uint64_t kKeys = 600'000;
  for (std::uint64_t i = 0; i < kKeys; ++i) filler.ask.set(std::to_string(i), "");
  filler.send();
  while (engine.counters().requests < kKeys + 1) engine.turn();
  constexpr std::size_t kClients = 8;
  const auto clients = clients_of(engine, kClients);
  for (const auto& client : clients) {
    client->ask.list_keys();
    client->send();
  }
  // Each listing takes more than a turn's time.
  const std::uint64_t before = engine.counters().requests;
  engine.turn();
  CHECK(engine.counters().requests - before <= 4);
  // Who asks again at once does not come before those that have not been served.
  for (std::size_t turns = 1; turns < kClients; ++turns) engine.turn();
  CHECK(engine.counters().requests - before == 2 * kClients);
  CHECK(engine.counters().cut_for_error == 0);
}

TEST_CASE("clients that do not read large replies hold no more than the bound, those just cut included") {
  constexpr std::size_t kBound = 16U << 20U;
  constexpr std::size_t kValue = 2U << 20U;
  std::size_t most = 0;
  StoreServerOptions options = without_listener();
  options.max_bytes_under_way = kBound;
  options.warn = [&most](const std::string&) { most = std::max(most, heap_bytes()); };
  StoreEngine engine(options);
  Client filler(engine);
  filler.ask.set("/k", std::string(kValue, 'v'));
  filler.send();
  while (engine.counters().requests < 2) engine.turn();
  const std::size_t before = heap_bytes();
  const auto ask_all = [&engine] {
    auto clients = clients_of(engine, 60);
    for (const auto& client : clients) {
      client->ask.get("/k");
      client->send();
    }
    return clients;
  };
  auto clients = ask_all();
  for (int turns = 0; turns < 64; ++turns) engine.turn();
  CHECK(engine.counters().cut_for_error > 40);
  CHECK(engine.counters().cut_for_error < 60);
  // They go, and others ask in the same turn.
  clients.clear();
  clients = ask_all();
  for (int turns = 0; turns < 64; ++turns) engine.turn();
  CHECK(engine.counters().cut_for_error > 80);
  CHECK(most <= before + kBound + kValue);
}

TEST_CASE("the client that holds most is cut, not the one that comes last") {
  StoreServerOptions options = without_listener();
  options.max_bytes_under_way = 6U << 20U;
  StoreEngine engine(options);
  const auto hold = [&engine](Client& client, const std::string& key, std::size_t bytes) {
    client.ask.set(key, std::string(bytes, 'v'));
    client.ask.get(key);
    client.send();
    for (int turns = 0; turns < 8; ++turns) engine.turn();
  };
  const auto clients = clients_of(engine, 6);
  hold(*clients[0], "/large", 3U << 20U);
  for (std::size_t i = 1; i < clients.size() && engine.counters().cut_for_error == 0; ++i) {
    hold(*clients[i], "/small", 1U << 20U);
  }
  CHECK(engine.counters().cut_for_error == 1);
  CHECK(clients[0]->closed_by_engine());
  for (std::size_t i = 1; i < clients.size(); ++i) CHECK_FALSE(clients[i]->closed_by_engine());
}

TEST_CASE("who waits for which key can be asked, with the key that was perhaps meant") {
  StoreEngine engine(without_listener());
  const auto clients = clients_of(engine, 4);
  clients[0]->ask.set("/epoch", "1");
  clients[1]->ask.wait("/epcoh");
  clients[2]->ask.wait(std::vector<std::string>{"/epoch", "/never", "/never/2"});
  clients[3]->ask.wait(std::string(1000, 'k'));
  for (const auto& client : clients) client->send();
  for (int turns = 0; turns < 8; ++turns) engine.turn();
  const std::vector<StoreWait> waits = engine.waits(8);
  REQUIRE(waits.size() == 3);
  CHECK(waits[0].key == "/epcoh");
  CHECK(waits[0].more == 0);
  CHECK(waits[0].nearest == "/epoch");
  CHECK(waits[0].peer.port() == 1);
  CHECK(waits[1].key == "/never");
  CHECK(waits[1].more == 1);
  CHECK(waits[1].nearest.empty());
  CHECK(waits[1].requests == waits[0].requests);
  CHECK(waits[2].key == std::string(kWaitKeyBytesMax, 'k'));
  CHECK(engine.waits(1).size() == 1);
  clients[0]->ask.set("/epcoh", "1");
  clients[0]->send();
  engine.turn();
  CHECK(engine.waits(8).size() == 2);
}
