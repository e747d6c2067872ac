// SPDX-License-Identifier: Apache-2.0
#include "agent/core/link_session.hpp"

#include "agent/core/link_text.hpp"
#include "tests/support/catch.hpp"

#include <random>
#include <stdexcept>

namespace {

using muster::agent::decode_link_message;
using muster::agent::encode;
using muster::agent::LinkMessage;
using muster::agent::LinkSession;

LinkMessage output(std::int64_t number) {
  LinkMessage message;
  message.kind = LinkMessage::Kind::output;
  message.number = number;
  message.body = "line " + std::to_string(number) + "\n";
  return message;
}

/// Two sides and a transport that may lose what is under way in each direction.
struct Pair {
  LinkSession sides[2];
  std::deque<std::string> wire[2];  // wire[i]: sent by side i
  std::vector<std::int64_t> got[2];

  void send(int side, const LinkMessage& message) {
    if (const auto payload = sides[side].send(message)) wire[side].push_back(*payload);
  }

  void deliver_one(int from) {
    const std::string payload = wire[from].front();
    wire[from].pop_front();
    const int to = 1 - from;
    auto received = sides[to].receive(payload);
    for (const std::string& reply : received.replies) wire[to].push_back(reply);
    if (received.message) got[to].push_back(received.message->number);
  }

  void deliver_all() {
    while (!wire[0].empty() || !wire[1].empty()) deliver_one(wire[0].empty() ? 1 : 0);
  }

  void move() {
    for (int side = 0; side < 2; ++side) {
      wire[side].clear();
      wire[side].push_back(sides[side].moved());
    }
  }
};

}  // namespace

TEST_CASE("a link's messages keep any bytes") {
  LinkMessage message;
  message.kind = LinkMessage::Kind::output;
  message.number = 2;
  message.body = std::string("\0\n\xff 7\n", 6);
  const LinkMessage back = decode_link_message(encode(message));
  CHECK(back.kind == message.kind);
  CHECK(back.number == 2);
  CHECK(back.body == message.body);
  CHECK_THROWS_AS(decode_link_message("output\n"), std::invalid_argument);
  CHECK_THROWS_AS(decode_link_message("output x\n"), std::invalid_argument);
  CHECK_THROWS_AS(decode_link_message("outpu 1\n"), std::invalid_argument);
}

TEST_CASE("a link acknowledges in time and keeps nothing that was acknowledged") {
  Pair pair;
  for (int i = 1; i <= 200; ++i) pair.send(0, output(i));
  pair.deliver_all();
  CHECK(pair.got[1].size() == 200);
  CHECK(pair.sides[0].acknowledged() == 192);
  const auto ack = pair.sides[1].idle_ack();
  REQUIRE(ack);
  pair.sides[0].receive(*ack);
  CHECK(pair.sides[0].acknowledged() == pair.sides[0].sent());
  CHECK_FALSE(pair.sides[1].idle_ack());
}

TEST_CASE("a link that moves loses and doubles nothing") {
  std::mt19937 random(20261121);
  for (int repetition = 0; repetition < 200; ++repetition) {
    Pair pair;
    std::int64_t sent[2] = {0, 0};
    for (int step = 0; step < 300; ++step) {
      const auto dice = random() % 100;
      const int side = static_cast<int>(random() % 2);
      if (dice < 50)
        pair.send(side, output(++sent[side]));
      else if (dice < 97 && !pair.wire[side].empty())
        pair.deliver_one(side);
      else if (dice >= 97)
        pair.move();
    }
    pair.deliver_all();
    for (int side = 0; side < 2; ++side) {
      REQUIRE(static_cast<std::int64_t>(pair.got[side].size()) == sent[1 - side]);
      for (std::size_t i = 0; i < pair.got[side].size(); ++i)
        REQUIRE(pair.got[side][i] == static_cast<std::int64_t>(i) + 1);
    }
  }
}

TEST_CASE("a link refuses an acknowledgement of what was never sent") {
  LinkSession session;
  session.send(output(1));
  CHECK_THROWS_AS(session.receive("ack 2\n"), std::invalid_argument);
  CHECK_THROWS_AS(session.receive("ack -1\n"), std::invalid_argument);
  CHECK_THROWS_AS(session.receive("resume 0\n"), std::invalid_argument);
  session.moved();
  CHECK_THROWS_AS(session.receive("ack 1\n"), std::invalid_argument);
}

TEST_CASE("a link that is not acknowledged ends before it fills the memory") {
  LinkSession session;
  LinkMessage message = output(1);
  message.body.assign(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 15; ++i) session.send(message);
  CHECK_THROWS_AS((session.send(message), session.send(message)), std::length_error);
}

TEST_CASE("a piece of a log file names where it belongs") {
  muster::agent::FilePiece piece;
  piece.name = "attempt_0/1/std out.log";
  piece.offset = 123456789012;
  piece.bytes = std::string("\0a\n", 3);
  const auto back = muster::agent::file_piece_from(muster::agent::to_body(piece));
  CHECK(back.name == piece.name);
  CHECK(back.offset == piece.offset);
  CHECK(back.bytes == piece.bytes);
  CHECK_FALSE(back.last);
  for (const char* name : {"", "/etc/passwd", "a/../b", "..", "a//b", "./a", "a/"}) {
    piece.name = name;
    CHECK_THROWS_AS(muster::agent::file_piece_from(muster::agent::to_body(piece)), std::invalid_argument);
  }
  for (const char* body : {"", "1", "1 0", "1 0 ", "x 0 a", "-1 0 a"})
    CHECK_THROWS_AS(muster::agent::file_piece_from(body), std::invalid_argument);
}
