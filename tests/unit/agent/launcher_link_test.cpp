// SPDX-License-Identifier: Apache-2.0
#include "agent/launcher_link.hpp"

#include "rendezvous/wire/frame.hpp"
#include "tests/support/catch.hpp"

#include <boost/asio/io_context.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster::agent {
namespace {

using Kind = LinkMessage::Kind;

/// One end of a link; the test is the other.
struct Link {
  explicit Link(LauncherLink::Mode mode) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    there = ends[1];
    LauncherLink::Events events;
    events.message = [this](const LinkMessage& message) {
      messages.push_back(message.kind);
      if (message.kind == Kind::hello) throw std::invalid_argument("no such host");
    };
    events.opened = [this](std::string_view what, std::shared_ptr<rendezvous::Channel> channel) {
      if (what != kStdoutChannel) throw std::invalid_argument("no such channel");
      channels.push_back(std::move(channel));
    };
    events.closed = [this](const std::string& reason) { closed.push_back(reason); };
    events.broken = [this](const std::string& what) { broken.push_back(what); };
    link.emplace(context.get_executor(),
                 rendezvous::make_descriptor_stream(context.get_executor(), ends[0], ends[0]), mode,
                 std::move(events));
  }

  ~Link() {
    if (there >= 0) ::close(there);
  }

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void turn() {
    context.restart();
    context.poll();
  }

  /// Another end says this.
  void hear(const std::string& payload) {
    const std::string frame = rendezvous::encode_frame(payload);
    REQUIRE(::write(there, frame.data(), frame.size()) == static_cast<ssize_t>(frame.size()));
    turn();
  }

  void hang_up() {
    ::close(std::exchange(there, -1));
    turn();
  }

  std::string sent() const {
    std::array<char, 4096> buffer{};
    const ssize_t size = ::recv(there, buffer.data(), buffer.size(), MSG_DONTWAIT);
    return std::string(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  }

  boost::asio::io_context context{1};
  int there = -1;
  std::vector<Kind> messages;
  std::vector<std::shared_ptr<rendezvous::Channel>> channels;
  std::vector<std::string> closed;
  std::vector<std::string> broken;
  std::optional<LauncherLink> link;
};

}  // namespace

TEST_CASE("the end of a link is told once for each stream, and is no fault of the other side") {
  for (const auto mode : {LauncherLink::Mode::plain, LauncherLink::Mode::agent}) {
    Link one(mode);
    one.hear("stop 15\n");
    one.hang_up();
    CHECK(one.messages == std::vector<Kind>{Kind::stop});
    CHECK(one.closed == std::vector<std::string>{"the connection ended"});
    CHECK(one.broken.empty());
    CHECK_FALSE(one.link->connected());
  }
}

TEST_CASE("what no muster sends ends a link as that") {
  Link one(LauncherLink::Mode::launcher);
  SECTION("an unknown kind") {
    one.hear("nonsense 0\n");
    CHECK_THAT(one.broken.at(0), Contains("unknown message between launcher and agent: nonsense"));
  }
  SECTION("what its receiver cannot use") {
    one.hear("hello 0\nx");
    CHECK(one.broken.at(0) == "no such host");
  }
  SECTION("a channel for nothing that it knows") {
    one.hear(std::string("\x02\0\0\0\x01stdout", 11));
    CHECK(one.channels.size() == 1);
    one.hear(std::string("\x02\0\0\0\x03other", 10));
    CHECK(one.broken.at(0) == "no such channel");
  }
  SECTION("an acknowledgement of what was not sent") {
    one.hear(std::string("\x05\0\0\0\0\0\0\0\x01", 9));
    CHECK_THAT(one.broken.at(0), Contains("only 0 were sent"));
  }
  CHECK(one.broken.size() == 1);
  CHECK(one.closed.empty());
  CHECK_FALSE(one.link->connected());
}

TEST_CASE("both ends open channels, each with numbers of its own") {
  Link launcher(LauncherLink::Mode::launcher);
  Link agent(LauncherLink::Mode::agent);
  const auto to_worker = launcher.link->open_channel(kStdinChannel);
  const auto to_console = agent.link->open_channel(kStdoutChannel);
  launcher.turn();
  agent.turn();
  CHECK(launcher.sent() == rendezvous::encode_frame(std::string("\x02\0\0\0\x02stdin", 10)));
  CHECK(agent.sent() == rendezvous::encode_frame(std::string("\x02\0\0\0\x01stdout", 11)));
}

TEST_CASE("a report is acknowledged at once, for the agent waits for it before it ends") {
  Link one(LauncherLink::Mode::launcher);
  one.hear("log 0\nline");
  CHECK(one.sent().empty());
  one.hear("report 0\n{}");
  CHECK(one.sent() == rendezvous::encode_frame(std::string("\x05\0\0\0\0\0\0\0\x02", 9)));
}

TEST_CASE("a message counts as sent when the other side has it, or on a plain link when it is written") {
  Link plain(LauncherLink::Mode::plain);
  Link resumable(LauncherLink::Mode::launcher);
  int sent = 0;
  for (Link* one : {&plain, &resumable}) one->link->send({Kind::stop, 15, {}}, [&sent] { ++sent; });
  CHECK(sent == 0);  // not inside the call
  plain.turn();
  CHECK(sent == 1);
  resumable.turn();
  CHECK(sent == 1);
  CHECK(resumable.sent() == rendezvous::encode_frame("stop 15\n"));
  resumable.hear(std::string("\x05\0\0\0\0\0\0\0\x01", 9));
  CHECK(sent == 2);
  resumable.link->send({Kind::kill, 0, {}}, [&sent] { ++sent; });
  resumable.link->close();
  resumable.turn();
  CHECK(sent == 3);  // it cannot be sent any more
}

}  // namespace muster::agent
