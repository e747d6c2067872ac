// SPDX-License-Identifier: Apache-2.0
// What the engine does in one turn, with nothing else in the thread.
#include "rendezvous/server/store_engine.hpp"

#include "catch.hpp"
#include "rendezvous/c10d/request_encoder.hpp"

#include <sys/socket.h>

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

/// A client in the engine's own thread.
class Client {
 public:
  explicit Client(StoreEngine& engine) : engine_(engine) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
      throw std::runtime_error("socketpair");
    fd_.reset(ends[0]);
    engine_.adopt(UniqueFd(ends[1]), resolve("127.0.0.1", 1).front());
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
