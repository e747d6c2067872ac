// SPDX-License-Identifier: Apache-2.0
// The semantics of the store as a client sees them on the wire, and the worked examples byte for byte.
#include "rendezvous/c10d/session.hpp"

#include "catch.hpp"
#include "rendezvous/c10d/request_encoder.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

using namespace muster::rendezvous;
using c10d::Dialect;
using c10d::RequestEncoder;

namespace {

class Client final : public c10d::Session::Owner {
 public:
  explicit Client(Store& store, Dialect dialect = Dialect::modern)
      : ask(bytes_, dialect), session_(std::make_unique<c10d::Session>(store, *this)) {
    if (dialect == Dialect::modern) ask.validate();
  }

  // What was asked since the last call is sent; what came back is returned.
  std::string answer() {
    const std::string bytes = std::exchange(bytes_, "");
    return send(bytes);
  }

  // As answer(), but nothing is read back.
  void send_only() { feed(std::exchange(bytes_, "")); }

  std::string send(std::string_view bytes) {
    feed(bytes);
    return take();
  }

  void feed(std::string_view bytes) {
    while (!bytes.empty() && good) {
      const std::span<char> space = session_->input_space();
      const std::size_t count = std::min(space.size(), bytes.size());
      std::memcpy(space.data(), bytes.data(), count);
      bytes.remove_prefix(count);
      good = session_->input(count);
    }
  }

  std::string take() {
    const std::string output(session_->output());
    session_->output_sent(output.size());
    return output;
  }

  /// All but the last byte is read; returns how many were there.
  std::size_t read_all_but_one() {
    const std::size_t size = session_->output().size();
    if (size > 1) session_->output_sent(size - 1);
    return size;
  }

  std::size_t memory() const { return session_->memory(); }

  const std::string& error() const { return session_->error(); }

  void leave() { session_.reset(); }

  bool good = true;
  int wake_ups = 0;

 private:
  void output_ready() override { ++wake_ups; }

  std::string bytes_;

 public:
  RequestEncoder ask;  // writes into bytes_, so it stands behind it

 private:
  std::unique_ptr<c10d::Session> session_;
};

std::string number(std::int64_t value) {
  std::string bytes;
  c10d::append_integer(bytes, value);
  return bytes;
}

std::string text(std::string_view value) {
  std::string bytes;
  c10d::append_bytes(bytes, value);
  return bytes;
}

std::string hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    while (digits[i] == ' ') ++i;
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

const std::string kGo(1, c10d::kStopWaiting);
const std::string kCancelled(1, c10d::kWaitCancelled);

}  // namespace

TEST_CASE("the worked examples of the protocol, byte for byte") {
  Store store;
  Client client(store);
  CHECK(client.send(hex("00 ce f7 85 3c 0d 9a 6a 00 00")) == hex("9a 6a 00 00"));
  CHECK(client.send(hex("01 0400000000000000 2f666f6f 0300000000000000 626172")).empty());
  CHECK(client.send(hex("06 0100000000000000 0400000000000000 2f666f6f")) == hex("00"));
  CHECK(client.send(hex("03 0400000000000000 2f666f6f")) == hex("0300000000000000 626172"));
  CHECK(client.send(hex("04 0400000000000000 2f637472 0500000000000000")) == hex("0500000000000000"));
  CHECK(client.send(hex("04 0400000000000000 2f637472 f9ffffffffffffff")) == hex("feffffffffffffff"));
  CHECK(client.send(hex("06 0200000000000000 0400000000000000 2f666f6f 0400000000000000 2f637472")) ==
        hex("00"));
  CHECK(client.send(hex("06 0100000000000000 0500000000000000 2f6e6f7065")).empty());
  CHECK(client.send(hex("0c")) == hex("01"));
  CHECK(client.send(hex("05 0200000000000000 0400000000000000 2f666f6f 0500000000000000 2f6e6f7065")) ==
        hex("01"));
  CHECK(client.send(hex("02 0400000000000000 2f666f6f 0300000000000000 626172 0300000000000000 62617a")) ==
        hex("0300000000000000 62617a"));
  CHECK(client.send(hex("02 0300000000000000 2f6d32 0300000000000000 657870 0100000000000000 76")) ==
        hex("0300000000000000 657870"));
  CHECK(client
            .send(hex("0b 0200000000000000 0200000000000000 2f61 0100000000000000 31"
                      "0200000000000000 2f62 0200000000000000 3232"))
            .empty());
  CHECK(client.send(hex("0a 0200000000000000 0200000000000000 2f61 0200000000000000 2f62")) ==
        hex("0100000000000000 31 0200000000000000 3232"));
  CHECK(client.send(hex("04 0500000000000000 696e69742f 0100000000000000")) == hex("0100000000000000"));
  CHECK(client.send(hex("07")) == hex("0500000000000000"));
  CHECK(client.send(hex("08 0200000000000000 2f61")) == hex("0100000000000000"));
  CHECK(client.send(hex("08 0200000000000000 2f61")) == hex("0000000000000000"));
  CHECK(client.send(hex("12 0500000000000000 2f62617231 0100000000000000")) == hex("00"));
  CHECK(client.send(hex("0e 0200000000000000 2f71 0400000000000000 6974656d")).empty());
  CHECK(client.send(hex("06 0100000000000000 0200000000000000 2f71")) == hex("00"));
  CHECK(client.send(hex("0f 0200000000000000 2f71")) == hex("0100000000000000 0400000000000000 6974656d"));
  CHECK(client.good);
}

TEST_CASE("waits are woken by every way a key can come") {
  Store store;
  Client waiter(store);
  Client setter(store);
  waiter.ask.wait("/k");
  CHECK(waiter.answer().empty());
  const std::vector<std::pair<std::string, std::string>> pairs = {{"/x", "1"}, {"/k", "2"}};
  SECTION("append") {
    setter.ask.append("/k", "v");
  }
  SECTION("compare_set") {
    setter.ask.compare_set("/k", "", "v");
  }
  SECTION("multi_set") {
    setter.ask.multi_set(pairs);
  }
  SECTION("queue_push") {
    setter.ask.queue_push("/k", "v");
  }
  SECTION("add") {
    setter.ask.add("/k", 0);
  }
  setter.answer();
  CHECK(waiter.take() == kGo);
}

TEST_CASE("cancel is always answered and leaves the connection usable") {
  Store store;
  Client client(store);
  client.ask.cancel_wait();
  CHECK(client.answer() == kCancelled);
  client.ask.wait("/k");
  client.ask.cancel_wait();
  client.ask.set("/k", "v");
  CHECK(client.answer() == kCancelled);
  client.ask.wait("/k");
  client.ask.cancel_wait();
  CHECK(client.answer() == kGo + kCancelled);
  client.ask.get("/k");
  CHECK(client.answer() == text("v"));
}

TEST_CASE("a second wait before the first is over closes the connection") {
  Store store;
  Client client(store);
  client.ask.wait("/a");
  client.ask.wait("/b");
  client.answer();
  CHECK_FALSE(client.good);
  CHECK(client.error().find("second wait") != std::string::npos);
}

TEST_CASE("a client that leaves while it waits is forgotten") {
  Store store;
  Client gone(store);
  Client other(store);
  gone.ask.wait("/q");
  gone.answer();
  other.ask.wait("/q");
  other.answer();
  gone.leave();
  Client pusher(store);
  pusher.ask.queue_push("/q", "item");
  pusher.answer();
  CHECK(other.take() == kGo);
}

TEST_CASE("the legacy dialect has no cancel: the next request gives a wait up") {
  Store store;
  Client client(store, Dialect::legacy);
  client.ask.wait("/k");
  CHECK(client.answer().empty());
  client.ask.add("/n", 3);
  CHECK(client.answer() == number(3));
  client.ask.set("/k", "v");
  CHECK(client.answer().empty());
  client.ask.get("/k");
  CHECK(client.answer() == text("v"));
}

TEST_CASE("reading what is not there answers empty") {
  Store store;
  Client client(store);
  const std::vector<std::string> keys = {"/a", "/b"};
  client.ask.get("/a");
  client.ask.multi_get(keys);
  client.ask.queue_pop("/q");
  client.ask.queue_len("/q");
  CHECK(client.answer() == text("") + text("") + text("") + number(0) + number(0));
  client.ask.wait(std::span<const std::string>{});
  CHECK(client.answer() == kGo);
}

TEST_CASE("a barrier lets all go at its size, later callers at once, and survives a cancel") {
  Store store;
  Client a(store);
  Client b(store);
  Client c(store);
  a.ask.barrier("/bar", 2);
  CHECK(a.answer().empty());
  a.ask.cancel_wait();
  CHECK(a.answer() == kCancelled);
  b.ask.barrier("/bar", 3);
  CHECK(b.answer().empty());
  c.ask.barrier("/bar", 3);
  CHECK(c.answer() == kGo);
  CHECK(b.take() == kGo);
  c.ask.barrier("/bar", 3);
  CHECK(c.answer() == kGo);
}

TEST_CASE("list_keys names plain keys of every prefix") {
  Store store;
  Client client(store);
  client.ask.set("init/", "1");
  client.ask.queue_push("/q", "x");
  client.ask.list_keys();
  CHECK(client.answer() == number(1) + text("init/"));
}

TEST_CASE("a request that cannot be done closes the connection and says why") {
  Store store(4096);
  Client client(store);
  SECTION("add to a text") {
    client.ask.set("/k", "text");
    client.ask.add("/k", 1);
    client.answer();
    CHECK(client.error().find("decimal") != std::string::npos);
  }
  SECTION("memory cap") {
    client.ask.set("/k", std::string(5000, 'v'));
    client.answer();
    CHECK(client.error().find("cap of 4096") != std::string::npos);
    CHECK(store.size() == 0);
  }
  CHECK_FALSE(client.good);
}

TEST_CASE("unread replies are capped before they are gathered") {
  Store store;
  Client client(store);
  client.ask.set("/k", std::string(kMaxValueBytes, 'v'));
  client.answer();
  const std::vector<std::string> many(1000, "/k");
  client.ask.multi_get(many);
  client.answer();
  CHECK_FALSE(client.good);
  CHECK(client.error().find("unread") != std::string::npos);
}

TEST_CASE("a client that is always a little behind does not make the buffer grow") {
  Store store;
  Client client(store);
  client.ask.set("k", std::string(1 << 16, 'x'));
  client.ask.get("k");
  client.answer();
  for (int i = 0; i < 1000; ++i) {
    client.ask.get("k");
    client.send_only();
    client.read_all_but_one();
    REQUIRE(client.good);
    REQUIRE(client.memory() < (1U << 20));
  }
}
