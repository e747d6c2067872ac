// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/wire_session.hpp"

#include "tests/integration/control/control_fixture.hpp"
#include "tests/support/catch.hpp"

#include <unistd.h>

#include <functional>
#include <optional>

using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

/// One end, and what it was told.
struct End {
  explicit End(asio::io_context& of, bool dialled = true, bool resumable = true) : context(of) {
    WireSession::Handlers handlers;
    handlers.message = [this](std::string_view payload) { messages.emplace_back(payload); };
    handlers.channel_opened = [this](std::string_view, std::shared_ptr<Channel> channel) {
      channels.push_back(std::move(channel));
    };
    handlers.ended = [this](const ConnectionEnd& end) { ends.push_back(end); };
    session = std::make_shared<WireSession>(of.get_executor(), std::move(handlers), resumable, dialled);
  }

  std::shared_ptr<Connection> connect(std::unique_ptr<ByteStream> stream) {
    auto connection =
        std::make_shared<Connection>(context.get_executor(), std::move(stream), Connection::Handlers{});
    return connection;
  }

  void carry(std::unique_ptr<ByteStream> stream) {
    const auto connection = connect(std::move(stream));
    session->carry(connection, 0);
    connection->start(kMaxControlFrameBytes);
  }

  void move_to(std::unique_ptr<ByteStream> stream) {
    const auto connection = connect(std::move(stream));
    session->move_to(connection);
    connection->start(kMaxControlFrameBytes);
  }

  asio::io_context& context;
  std::vector<std::string> messages;
  std::vector<std::shared_ptr<Channel>> channels;
  std::vector<ConnectionEnd> ends;
  std::shared_ptr<WireSession> session;
};

/// Two ends on one event loop.
struct Ends {
  ~Ends() {
    one.session->close("the test is over");
    other.session->close("the test is over");
    turn();
  }

  std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>> pair() {
    const auto [here, there] = socket_pair();
    return {make_descriptor_stream(context.get_executor(), here, here),
            make_descriptor_stream(context.get_executor(), there, there)};
  }

  void run_until(const std::function<bool()>& done) { muster::test::run_until(context, done); }

  void turn() {
    context.restart();
    context.poll();
  }

  asio::io_context context{1};
  End one{context};
  End other{context, false};
};

}  // namespace

TEST_CASE("what a session keeps for a peer that is away is bounded") {
  asio::io_context context;
  End away(context);
  const std::string message(60000, 'x');
  for (int i = 0; i < 300; ++i) away.session->send(message);
  CHECK(away.ends.empty());  // never from inside the call
  context.run();
  REQUIRE(away.ends.size() >= 1);
  CHECK(away.ends.front().code == Errc::lost);
  CHECK_FALSE(away.ends.front().broken);
  CHECK(away.ends.front().given_up);
  CHECK_THAT(away.ends.front().reason, Contains("has not acknowledged 16777216 bytes"));
}

TEST_CASE("channels stop long before that, and one alone stops at its window") {
  asio::io_context context;
  End away(context);
  std::vector<std::shared_ptr<Channel>> channels;
  std::size_t accepted = 0;
  for (int i = 0; i < 64; ++i) {
    channels.push_back(away.session->open_channel("test"));
    const std::size_t count = channels.back()->writable();
    CHECK(count <= kChannelCreditBytes);
    channels.back()->send(std::string(count, 'x'));
    CHECK(channels.back()->writable() == 0);
    accepted += count;
  }
  CHECK(accepted <= 4 * kMiB);
  CHECK_THROWS_AS(channels.front()->send("x"), std::logic_error);
  context.run();
  CHECK(away.ends.empty());
}

TEST_CASE("a peer that acknowledges what it has not read is cut off at a bound, by name") {
  Ends ends;
  const auto [here, there] = socket_pair();
  ends.one.carry(make_descriptor_stream(ends.context.get_executor(), here, here));
  const std::string piece(60'000, 'x');
  for (int sent = 1; sent < 1000 && ends.one.ends.empty(); ++sent) {
    ends.one.session->send(piece);
    Frame ack;
    ack.kind = FrameKind::ack;
    ack.count = static_cast<std::uint64_t>(sent);
    const std::string frame = encode_frame(ack);
    REQUIRE(::write(there, frame.data(), frame.size()) == static_cast<ssize_t>(frame.size()));
    ends.turn();
  }
  REQUIRE(ends.one.ends.size() == 1);
  CHECK(ends.one.ends.front().given_up);
  CHECK_THAT(ends.one.ends.front().reason, Contains("does not read: over 33554432 bytes of messages wait"));
  ::close(there);
}

TEST_CASE("small frames that nobody reads count with the memory that they take") {
  asio::io_context context;
  const auto [here, there] = socket_pair();
  std::optional<ConnectionEnd> told;
  Connection::Handlers handlers;
  handlers.ended = [&told](const ConnectionEnd& end) { told = end; };
  const auto connection = std::make_shared<Connection>(
      context.get_executor(), make_descriptor_stream(context.get_executor(), here, here),
      std::move(handlers));
  std::size_t sent = 0;
  while (!told && sent < 1'000'000) {
    for (int i = 0; i < 10'000; ++i, ++sent) connection->send("frame");
    context.restart();
    context.poll();
  }
  REQUIRE(told);
  CHECK(told->given_up);
  CHECK(sent < 300'000);
  ::close(there);
}

TEST_CASE("a session moves to another stream, and says when the peer has what") {
  Ends ends;
  auto [here, there] = ends.pair();
  ends.one.carry(std::move(here));
  ends.other.carry(std::move(there));
  int settled = 0;
  ends.one.session->send("first", [&settled] { ++settled; });
  ends.one.session->send_aside("aside");
  ends.run_until([&] { return settled == 1; });
  CHECK(ends.other.messages == std::vector<std::string>{"first", "aside"});
  ends.one.session->put_down();
  ends.run_until([&] { return ends.other.ends.size() == 1; });
  CHECK_FALSE(ends.other.session->connected());
  // Kept until there is another stream, but for the aside.
  ends.one.session->send("second", [&settled] { ++settled; });
  ends.one.session->send_aside("lost");
  ends.other.session->send("back");
  auto [here2, there2] = ends.pair();
  ends.one.move_to(std::move(here2));
  ends.turn();
  CHECK(settled == 1);  // the other end has said nothing yet
  ends.other.move_to(std::move(there2));
  ends.run_until([&] { return settled == 2 && ends.one.messages.size() == 1; });
  CHECK(ends.other.messages == std::vector<std::string>{"first", "aside", "second"});
  CHECK(ends.one.messages == std::vector<std::string>{"back"});
}

TEST_CASE("a stream that one end only takes for another one is refused") {
  Ends ends;
  auto [here, there] = ends.pair();
  ends.one.carry(std::move(here));
  ends.other.move_to(std::move(there));
  ends.run_until([&] { return !ends.one.ends.empty(); });
  CHECK(ends.one.ends.front().code == Errc::mend);
  CHECK_THAT(ends.one.ends.front().reason, Contains("resumed by one side only"));
}

TEST_CASE("a channel carries another session, whose ends see when it closes") {
  Ends ends;
  auto [here, there] = ends.pair();
  ends.one.carry(std::move(here));
  ends.other.carry(std::move(there));
  const auto channel = ends.one.session->open_channel("for a session");
  ends.run_until([&] { return !ends.other.channels.empty(); });
  End inner(ends.context);
  End outer(ends.context, false);
  inner.carry(make_channel_stream(ends.context.get_executor(), channel));
  outer.carry(make_channel_stream(ends.context.get_executor(), ends.other.channels.front()));
  ends.other.channels.clear();
  // More than the channel's window at once.
  const std::string large(3 * kChannelCreditBytes, 'x');
  inner.session->send(large);
  outer.session->send("answer");
  ends.run_until([&] { return !outer.messages.empty() && !inner.messages.empty(); });
  CHECK(outer.messages.front() == large);
  CHECK(inner.messages.front() == "answer");
  inner.session->close("enough");
  ends.run_until([&] { return !outer.ends.empty(); });
  CHECK(outer.ends.front().code == Errc::lost);
  outer.session->close("enough");
}
