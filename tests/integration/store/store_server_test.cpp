// SPDX-License-Identifier: Apache-2.0
// The real server on loopback, in a thread of this process, against clients that behave in every way.
#include "rendezvous/server/store/store_server.hpp"

#include "catch.hpp"
#include "rendezvous/log/log.hpp"
#include "tests/integration/store/raw_client.hpp"
#include "tests/support/ipv6.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <atomic>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

StoreServerOptions quick(std::chrono::milliseconds handshake = 20s) {
  StoreServerOptions options;
  options.handshake_timeout = handshake;
  return options;
}

class Served {
 public:
  explicit Served(const StoreServerOptions& options = quick()) : guard_(context_.get_executor()) {
    muster::set_log_level(muster::LogLevel::off);
    server_.emplace(context_.get_executor(), options);
    thread_ = std::thread([this] { context_.run(); });
  }

  template <typename Function>
  auto on_thread(Function function) {
    auto task = std::make_shared<std::packaged_task<decltype(function())()>>(std::move(function));
    auto result = task->get_future();
    boost::asio::post(context_, [task] { (*task)(); });
    return result.get();
  }

  ~Served() {
    on_thread([this] { server_.reset(); });
    guard_.reset();
    thread_.join();
  }

  const SocketAddress& address() const { return server_->endpoint(); }

  StoreServerCounters counters() {
    return on_thread([this] { return server_->counters(); });
  }

  void close() {
    on_thread([this] { server_->close(); });
  }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::optional<StoreServer> server_;
  std::thread thread_;
};

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

void set_and_get(RawClient& client, const std::string& key, const std::string& value) {
  client.ask.set(key, value);
  client.ask.get(key);
  client.send();
  REQUIRE(client.receive_text() == value);
}

}  // namespace

TEST_CASE("values of every size come back") {
  Served served;
  RawClient client(served.address());
  client.handshake();
  for (const std::size_t size : {0U, 1U, 2048U, 65'535U, 65'536U, 300'000U, 8U << 20U}) {
    set_and_get(client, "/k", std::string(size, 'v'));
  }
  CHECK(served.counters().connections == 1);
}

TEST_CASE("a half-sent request delays nobody") {
  Served served;
  RawClient slow(served.address());
  slow.handshake();
  slow.send(std::string_view("\x01\x04\x00", 3));
  RawClient other(served.address());
  other.handshake();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) set_and_get(other, "/k", std::to_string(i));
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  slow.send(std::string_view("\0\0\0\0\0\0/a/b\x01\0\0\0\0\0\0\0x", 19));
  slow.ask.get("/a/b");
  slow.send();
  CHECK(slow.receive_text() == "x");
}

TEST_CASE("an oversized length closes that connection at once and takes no memory") {
  Served served;
  RawClient witness(served.address());
  witness.handshake();
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 50; ++i) {
    RawClient client(served.address());
    client.handshake();
    std::string bytes("\x01", 1);
    c10d::append_bytes(bytes, "/k");
    c10d::append_integer(bytes, std::uint64_t{1} << 40U);
    client.send(bytes);
    CHECK(client.closed_by_server());
  }
  CHECK(resident_bytes() < before + (8U << 20U));
  CHECK(served.counters().cut_for_error == 50);
  set_and_get(witness, "/k", "still here");
}

TEST_CASE("a client that has not spoken in full is cut at the deadline; one that has spoken may idle") {
  Served served(quick(2s));
  RawClient idle(served.address());
  idle.handshake();
  RawClient legacy(served.address());
  legacy.send(std::string_view("\x03\x05\0\0\0\0\0\0\0init/\x01\0\0\0\0\0\0\0", 22));
  CHECK(legacy.receive_number() == 1);
  RawClient half(served.address());
  half.send(std::string_view("\0\xce\xf7", 3));
  CHECK(half.closed_by_server());
  // Torch 1.13 opens a second connection that never speaks and must stay; a third one is one too many.
  RawClient companion(served.address());
  RawClient silent(served.address());
  CHECK(silent.closed_by_server());
  CHECK(served.counters().connections == 3);
  CHECK(served.counters().cut_silent == 2);
  companion.send(std::string_view("\x02\x05\0\0\0\0\0\0\0init/", 14));
  CHECK(companion.receive_text() == "1");
  set_and_get(idle, "/k", "v");
}

TEST_CASE("a client that never reads is cut, and the others are served meanwhile") {
  Served served;
  RawClient deaf(served.address());
  deaf.handshake();
  deaf.ask.set("/big", std::string(4U << 20U, 'v'));
  deaf.send();
  RawClient witness(served.address());
  witness.handshake();
  std::string gets;
  c10d::RequestEncoder encoder(gets);
  encoder.get("/big");
  while (deaf.try_send(gets)) set_and_get(witness, "/k", "v");
  CHECK(served.counters().cut_for_error == 1);
  CHECK(served.counters().connections == 1);
}

TEST_CASE("close cuts everyone and the next store on the same port is empty") {
  StoreServerOptions options = quick();
  std::optional<RawClient> old;
  {
    Served first(options);
    options.port = first.address().port();
    old.emplace(first.address());
    old->handshake();
    set_and_get(*old, "/stale", "x");
    CHECK_THROWS_AS(Served(options), std::runtime_error);
    first.close();
    CHECK(old->closed_by_server());
  }
  Served second(options);
  CHECK(second.address().port() == options.port);
  RawClient client(second.address());
  client.handshake();
  client.ask.num_keys();
  client.ask.get("/stale");
  client.send();
  CHECK(client.receive_number() == 0);
  CHECK(client.receive_text().empty());
  CHECK_FALSE(old->try_send(std::string(64U << 20U, '\0')));  // more than any send buffer
}

TEST_CASE("64 clients count, wait for each other and see every value") {
  Served served;
  constexpr int kClients = 64;
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int rank = 0; rank < kClients; ++rank) {
    threads.emplace_back([&, rank] {
      RawClient client(served.address());
      client.handshake();
      for (int i = 0; i < 50; ++i) {
        client.ask.add("/n", 1);
        client.send();
        client.receive_number();
      }
      client.ask.set("/rank" + std::to_string(rank), std::to_string(rank));
      client.ask.barrier("/bar", kClients);
      client.send();
      client.receive(1);
      const int next = (rank + 1) % kClients;
      client.ask.get("/rank" + std::to_string(next));
      client.send();
      if (client.receive_text() == std::to_string(next)) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == kClients);
  RawClient client(served.address());
  client.handshake();
  client.ask.add("/n", 0);
  client.send();
  CHECK(client.receive_number() == 50 * kClients);
}

TEST_CASE("too many connections are refused, those in are served") {
  StoreServerOptions options = quick();
  options.max_connections = 2;
  Served served(options);
  RawClient a(served.address());
  RawClient b(served.address());
  a.handshake();
  b.handshake();
  RawClient c(served.address());
  CHECK(c.closed_by_server());
  set_and_get(a, "/k", "v");
  CHECK(served.counters().refused == 1);
}

TEST_CASE("all clients together have a bound on what is under way, and their end gives it back") {
  StoreServerOptions options = quick();
  options.max_bytes_under_way = 3U << 19U;
  Served served(options);
  const auto half_a_value = [](RawClient& client, std::size_t bytes) {
    client.handshake();
    std::string text("\x01", 1);
    c10d::append_bytes(text, "/k");
    c10d::append_integer(text, std::uint64_t{1} << 22U);
    client.try_send(text + std::string(bytes, 'x'));
  };
  RawClient witness(served.address());
  witness.handshake();
  for (std::uint64_t cut = 0; cut < 3; ++cut) {
    RawClient one(served.address());
    RawClient other(served.address());
    half_a_value(one, 600U << 10U);
    set_and_get(witness, "/k", "v");
    CHECK(served.counters().cut_for_error == cut);
    half_a_value(other, 600U << 10U);
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (served.counters().cut_for_error == cut && std::chrono::steady_clock::now() < deadline)
      set_and_get(witness, "/k", "w");
    CHECK(served.counters().cut_for_error == cut + 1);
  }
}

TEST_CASE("addresses beyond those allowed are turned away before a byte is read") {
  StoreServerOptions options = quick();
  options.allow_from = {*Cidr::parse("10.0.0.0/8")};
  Served served(options);
  RawClient client(served.address());
  CHECK(client.closed_by_server());
  CHECK(served.counters().accepted == 0);
}

TEST_CASE("it listens on IPv6 and on names, and refuses what it must not listen on") {
  StoreServerOptions options = quick();
  for (const std::string host : {"::1", "localhost"}) {
    if (host == "::1" && !muster::test::has_ipv6_loopback()) continue;
    options.host = host;
    Served served(options);
    RawClient client(served.address());
    client.handshake();
    set_and_get(client, "/k", host);
    CHECK(served.address().is_loopback());
  }
  options.host = "0.0.0.0";
  CHECK_THROWS_AS(Served(options), std::runtime_error);
}

TEST_CASE("the memory cap closes the writer and keeps what was there") {
  StoreServerOptions options = quick();
  options.max_store_bytes = 1U << 20U;
  Served served(options);
  RawClient reader(served.address());
  reader.handshake();
  set_and_get(reader, "/k", "v");
  RawClient writer(served.address());
  writer.handshake();
  writer.ask.set("/big", std::string(2U << 20U, 'v'));
  writer.send();
  CHECK(writer.closed_by_server());
  set_and_get(reader, "/k", "w");
}
