// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher_link.hpp"

#include "tests/support/catch.hpp"

#include <boost/asio/io_context.hpp>

#include <optional>
#include <string>
#include <vector>

namespace muster::agent {
namespace {

using Kind = LinkMessage::Kind;

/// To a side that takes nothing from it.
class Stuck final : public ByteTransport {
 public:
  struct Wire {
    std::size_t bytes = 0;
    std::size_t frames = 0;
    Events events;
    std::vector<std::function<void()>> written;
  };

  explicit Stuck(Wire& wire) : wire_(wire) {}

  void start(Events events) override { wire_.events = std::move(events); }

  void write(std::string bytes, std::function<void()> written) override {
    wire_.bytes += bytes.size();
    ++wire_.frames;
    wire_.written.push_back(std::move(written));
  }

  void close() override {}

 private:
  Wire& wire_;
};

LinkMessage message(Kind kind, std::int64_t number, std::string body = {}) {
  LinkMessage made;
  made.kind = kind;
  made.number = number;
  made.body = std::move(body);
  return made;
}

std::string framed(const LinkMessage& one) {
  const std::string payload = encode(one);
  const std::size_t size = payload.size();
  std::string frame;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) frame += static_cast<char>(size >> shift & 0xFFU);
  return frame + payload;
}

struct Link {
  explicit Link(std::size_t max_unread = LauncherLink::kMaxUnread) {
    LauncherLink::Events events;
    events.message = [](const LinkMessage&) {};
    events.closed = [this](const std::string& reason) { closed = reason; };
    events.broken = [this](const std::string& what) { broken = what; };
    link.emplace(context.get_executor(), std::make_unique<Stuck>(wire), LauncherLink::Mode::resumable,
                 std::move(events), "", max_unread);
  }

  void turn() {
    context.restart();
    context.poll();
  }

  boost::asio::io_context context{1};
  Stuck::Wire wire;
  std::string closed;
  std::string broken;
  std::optional<LauncherLink> link;
};

}  // namespace

TEST_CASE("a side that acknowledges what it has not read is cut off at a bound, by name") {
  Link one;
  const std::string piece(60'000, 'x');
  std::int64_t sent = 0;
  while (one.broken.empty() && sent < 1000) {
    one.link->send(message(Kind::input, 0, piece));
    ++sent;
    if (one.wire.events.bytes) one.wire.events.bytes(framed(message(Kind::ack, sent)));
    one.turn();
  }
  CHECK_THAT(one.broken, Contains("it does not read: over 33554432 bytes wait for it"));
  CHECK(one.wire.bytes < 34U << 20U);
  CHECK(one.closed.empty());
}

TEST_CASE("acknowledgements that nobody reads are bounded, too") {
  Link one(std::size_t{256} << 10);
  std::string flood;
  for (int i = 0; i < 640; ++i) flood += framed(message(Kind::log, 0));
  for (int i = 0; i < 1000 && one.broken.empty(); ++i) {
    one.wire.events.bytes(flood);
    one.turn();
  }
  CHECK_THAT(one.broken, Contains("it does not read"));
  CHECK(one.wire.frames < 4000);
}

TEST_CASE("a side that acknowledges nothing is cut off at a bound, by name") {
  Link one;
  const std::string piece(60'000, 'x');
  for (int i = 0; i < 1000 && one.broken.empty(); ++i) {
    one.link->send(message(Kind::input, 0, piece));
    // What leaves this process does not count as read by the other.
    for (const auto& written : std::exchange(one.wire.written, {})) written();
    one.turn();
  }
  CHECK_THAT(one.broken, Contains("has acknowledged nothing"));
  CHECK(one.wire.bytes < 18U << 20U);
}

}  // namespace muster::agent
