// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/session_link.hpp"

#include "tests/integration/control/control_fixture.hpp"
#include "tests/support/catch.hpp"

using namespace muster::rendezvous;
using namespace muster::rendezvous::test;

namespace {

struct Detached {
  explicit Detached() {
    SessionLink::Handlers handlers;
    handlers.ended = [this](const ConnectionEnd& end) { ends.push_back(end); };
    link = std::make_shared<SessionLink>(context.get_executor(), std::move(handlers), true, true);
  }

  asio::io_context context;
  std::vector<ConnectionEnd> ends;
  std::shared_ptr<SessionLink> link;
};

}  // namespace

TEST_CASE("what a session keeps for a peer that is away is bounded") {
  Detached session;
  FailRound failure;
  failure.text = std::string(60000, 'x');
  for (int i = 0; i < 300; ++i) session.link->send(failure);
  CHECK(session.ends.empty());  // never from inside the call
  session.context.run();
  REQUIRE(session.ends.size() >= 1);
  CHECK(session.ends.front().code == Errc::lost);
  CHECK_FALSE(session.ends.front().broken);
  CHECK_THAT(session.ends.front().reason, Contains("has not acknowledged 16777216 bytes"));
}

TEST_CASE("channels stop long before that, and one alone stops at its window") {
  Detached session;
  std::vector<std::shared_ptr<Channel>> channels;
  std::size_t accepted = 0;
  for (int i = 0; i < 64; ++i) {
    channels.push_back(session.link->open_channel(ChannelKind::store, ""));
    const std::size_t count = channels.back()->writable();
    CHECK(count <= kChannelCreditBytes);
    channels.back()->send(std::string(count, 'x'));
    CHECK(channels.back()->writable() == 0);
    accepted += count;
  }
  CHECK(accepted <= 4 * kMiB);
  CHECK_THROWS_AS(channels.front()->send("x"), std::logic_error);
  session.context.run();
  CHECK(session.ends.empty());
}
