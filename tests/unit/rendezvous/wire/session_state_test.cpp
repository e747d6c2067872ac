// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/session_state.hpp"

#include "rendezvous/protocol/errc.hpp"
#include "tests/support/catch.hpp"

#include <random>
#include <stdexcept>
#include <vector>

using namespace muster::rendezvous;

namespace {

Frame frame_of(FrameKind kind, std::string_view payload = {}, std::uint32_t channel = 0,
               std::uint64_t count = 0) {
  Frame frame;
  frame.kind = kind;
  frame.channel = channel;
  frame.count = count;
  frame.payload = payload;
  return frame;
}

std::string body_of(const Frame& frame) {
  return encode_frame(frame).substr(kFrameHeaderBytes);
}

/// What a peer's frame is answered with; "taken" if nothing is wrong with it.
std::string complaint(SessionState& state, const Frame& frame) {
  try {
    state.receive(body_of(frame));
  } catch (const CoordinatorError& error) {
    CHECK(error.code() == Errc::mend);
    return error.what();
  }
  return "taken";
}

/// Two ends and a line that may lose what is under way in each direction.
struct Pair {
  SessionState sides[2] = {SessionState(true, true), SessionState(true, false)};
  std::deque<std::string> line[2];  // line[i]: sent by side i
  std::vector<std::string> got[2];

  void send(int side, const std::string& text) {
    line[side].push_back(sides[side].send(frame_of(FrameKind::message, text)));
  }

  void acknowledge(int side) {
    line[side].push_back(sides[side].send(frame_of(FrameKind::ack, {}, 0, sides[side].tell_received())));
  }

  void deliver_one(int from) {
    const std::string body = line[from].front().substr(kFrameHeaderBytes);
    line[from].pop_front();
    const int to = 1 - from;
    const Frame frame = sides[to].receive(body);
    if (frame.kind == FrameKind::message) got[to].emplace_back(frame.payload);
    if (sides[to].ack_due()) acknowledge(to);
  }

  void deliver_all() {
    while (!line[0].empty() || !line[1].empty()) deliver_one(line[0].empty() ? 1 : 0);
  }

  void move() {
    const std::uint64_t received[2] = {sides[0].tell_received(), sides[1].tell_received()};
    for (int side = 0; side < 2; ++side) line[side] = sides[side].resumed(received[1 - side]);
  }
};

}  // namespace

TEST_CASE("what is acknowledged is kept no longer, and the rest is sent again in order") {
  SessionState state(true, true);
  std::vector<std::string> frames;
  for (const char* text : {"a", "bb", "ccc"})
    frames.push_back(state.send(frame_of(FrameKind::message, text)));
  CHECK(state.kept_bytes() == 6 + 3 * kFrameHeaderBytes);
  CHECK(complaint(state, frame_of(FrameKind::ack, {}, 0, 1)) == "taken");
  CHECK(state.kept_bytes() == 5 + 2 * kFrameHeaderBytes);
  CHECK(complaint(state, frame_of(FrameKind::ack, {}, 0, 0)) == "taken");  // older news
  CHECK(state.resumed(2) == std::deque<std::string>{frames[2]});
  CHECK(state.resumed(2) == std::deque<std::string>{frames[2]});
  CHECK(state.resumed(3).empty());
  CHECK(state.kept_bytes() == 0);
}

TEST_CASE("a peer cannot have got what was not sent, nor want again what it had") {
  SessionState state(true, true);
  state.send(frame_of(FrameKind::message, "a"));
  CHECK_THAT(complaint(state, frame_of(FrameKind::ack, {}, 0, 2)),
             Contains("message 2") && Contains("only 1 were sent"));
  CHECK(complaint(state, frame_of(FrameKind::ack, {}, 0, 1)) == "taken");
  CHECK_THROWS_WITH(state.resumed(0), Contains("message 1") && Contains("again"));
  CHECK_THROWS_WITH(state.resumed(2), Contains("message 2") && Contains("only 1 were sent"));
}

TEST_CASE("nothing is kept or acknowledged in a session that ends with its stream") {
  SessionState state(false, true);
  state.send(frame_of(FrameKind::message, std::string(1000, 'x')));
  CHECK(state.kept_bytes() == 0);
  for (std::size_t i = 0; i < 2 * kAckAfterMessages; ++i) state.receive("message");
  CHECK_FALSE(state.ack_due());
  CHECK_FALSE(state.ack_owed());
}

TEST_CASE("asides and acknowledgements are not counted") {
  SessionState state(true, true);
  for (const FrameKind kind : {FrameKind::aside, FrameKind::ack, FrameKind::resume}) {
    state.send(frame_of(kind));
    state.receive(body_of(frame_of(kind)));
  }
  CHECK(state.sent() == 0);
  CHECK(state.kept_bytes() == 0);
  CHECK(state.received() == 0);
  CHECK_FALSE(state.ack_owed());
}

TEST_CASE("an acknowledgement is due when much has come, or many") {
  SECTION("bytes") {
    SessionState state(true, true);
    state.receive(std::string(kAckAfterBytes - kFrameHeaderBytes - 1, 'x'));
    CHECK(state.ack_owed());
    CHECK_FALSE(state.ack_due());
    state.receive("x");
    CHECK(state.ack_due());
    CHECK(state.tell_received() == 2);
    CHECK_FALSE(state.ack_due());
    CHECK_FALSE(state.ack_owed());
  }
  SECTION("messages") {
    Pair pair;
    for (std::size_t i = 0; i < 3 * kAckAfterMessages + 8; ++i) pair.send(0, "line");
    pair.deliver_all();
    CHECK(pair.got[1].size() == 3 * kAckAfterMessages + 8);
    CHECK(pair.sides[0].acknowledged() == 3 * kAckAfterMessages);
    CHECK(pair.sides[1].ack_owed());
    pair.acknowledge(1);
    pair.deliver_all();
    CHECK(pair.sides[0].acknowledged() == pair.sides[0].sent());
  }
}

TEST_CASE("two ends with a line that loses everything under way at random moments agree in the end") {
  std::mt19937 random(20261121);
  for (int repetition = 0; repetition < 200; ++repetition) {
    Pair pair;
    int sent[2] = {0, 0};
    for (int step = 0; step < 300; ++step) {
      const auto dice = random() % 100;
      const int side = static_cast<int>(random() % 2);
      if (dice < 45)
        pair.send(side, std::to_string(sent[side]++));
      else if (dice < 50)
        pair.acknowledge(side);
      else if (dice < 97 && !pair.line[side].empty())
        pair.deliver_one(side);
      else if (dice >= 97)
        pair.move();
    }
    pair.deliver_all();
    for (int side = 0; side < 2; ++side) {
      REQUIRE(static_cast<int>(pair.got[side].size()) == sent[1 - side]);
      for (std::size_t i = 0; i < pair.got[side].size(); ++i) REQUIRE(pair.got[side][i] == std::to_string(i));
    }
  }
}

TEST_CASE("a channel carries what its window allows, and as much again as was dealt with") {
  Pair pair;
  SessionState& from = pair.sides[0];
  SessionState& to = pair.sides[1];
  const std::uint32_t channel = from.open_channel();
  CHECK(channel == 1);
  CHECK(to.open_channel() == 2);
  CHECK(complaint(to, frame_of(FrameKind::opened, "what for", channel)) == "taken");
  const std::string piece(kChannelCreditBytes / 4, 'x');
  CHECK(from.credit(channel) == kChannelCreditBytes);
  for (int i = 0; i < 4; ++i) to.receive(from.send(frame_of(FrameKind::bytes, piece, channel)).substr(4));
  CHECK(from.credit(channel) == 0);
  CHECK_THROWS_AS(from.send(frame_of(FrameKind::bytes, "x", channel)), std::logic_error);
  CHECK_THAT(complaint(to, frame_of(FrameKind::bytes, "x", channel)),
             Contains("more bytes than it was given"));
  const std::size_t given_at_once = kChannelCreditBytes / 16;
  CHECK_FALSE(to.consumed(channel, given_at_once - 1));
  const auto credit = to.consumed(channel, 1);
  REQUIRE(credit);
  from.receive(credit->substr(kFrameHeaderBytes));
  CHECK(from.credit(channel) == given_at_once);
  CHECK(complaint(to, frame_of(FrameKind::bytes, piece.substr(0, given_at_once), channel)) == "taken");
}

TEST_CASE("what a peer must not do with channels") {
  SessionState state(true, true);
  const std::uint32_t ours = state.open_channel();
  const std::string too_long(kMaxTextBytes + 1, 'x');

  struct Row {
    Frame frame;
    const char* answer;
  };

  for (const Row& row : std::vector<Row>{
           {frame_of(FrameKind::opened, "", 0), "channel 0 is not the peer's to open"},
           {frame_of(FrameKind::opened, "", 3), "channel 3 is not the peer's to open"},
           {frame_of(FrameKind::opened, "", 2), "taken"},
           {frame_of(FrameKind::opened, "", 2), "channel 2 is not the peer's to open, or is open already"},
           {frame_of(FrameKind::credit, "", ours, 1), "channel 1 was given more credit than bytes were sent"},
           {frame_of(FrameKind::bytes, "late", 4), "taken"},
           {frame_of(FrameKind::credit, "", 4, ~std::uint64_t{0}), "taken"},
           {frame_of(FrameKind::closed, "", 4), "taken"},
           {frame_of(FrameKind::closed, too_long, 2), "channel 2 was closed for a reason of 65537 bytes"},
           {frame_of(FrameKind::closed, "enough", 2), "taken"},
           {frame_of(FrameKind::opened, "", 2), "taken"}})
    CHECK_THAT(complaint(state, row.frame), Contains(row.answer));
  state.close_channel(ours);
  CHECK(state.credit(ours) == 0);
  CHECK_FALSE(state.consumed(ours, kChannelCreditBytes));
  CHECK(state.open_channels() == 1);
}
