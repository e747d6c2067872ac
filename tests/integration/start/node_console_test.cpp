// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/node_console.hpp"

#include "catch.hpp"
#include "tests/support/fake_channel.hpp"
#include "tests/support/pipe.hpp"

#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using muster::UniqueFd;
using muster::launcher::NodeConsole;
using muster::test::FakeChannel;
namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

struct Room {
  Room() { ::fcntl(reader.get(), F_SETFL, O_NONBLOCK); }

  /// Reads while the loop runs, until `bytes` have come.
  std::string read(std::size_t bytes) {
    std::string text;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    char buffer[65536];
    while (text.size() < bytes && std::chrono::steady_clock::now() < deadline) {
      context.run_for(milliseconds(1));
      context.restart();
      for (ssize_t got = 0; (got = ::read(reader.get(), buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }

  asio::io_context context{1};
  muster::test::Pipe pipe;
  UniqueFd& reader = pipe.read;
  UniqueFd& writer = pipe.write;
};

/// A console in which each node has a channel; that of node 1 is its stderr.
struct Shown {
  Shown(Room& room, std::size_t nodes)
      : console(room.context.get_executor(), nodes, {room.writer.get(), room.writer.get()}) {
    for (std::size_t node = 0; node < nodes; ++node) {
      channels.push_back(std::make_shared<FakeChannel>());
      console.receive(node, node == 1, channels.back());
    }
  }

  void feed(std::size_t node, const std::string& bytes) { channels[node]->told.data(bytes); }

  std::size_t taken(std::size_t node) const { return channels[node]->given_back; }

  NodeConsole console;
  std::vector<std::shared_ptr<FakeChannel>> channels;
};

std::string lines_of(char letter, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::string(99, letter) + '\n';
  return text;
}

}  // namespace

TEST_CASE("Lines of several nodes stay whole, and every byte is accounted for") {
  Room room;
  Shown shown(room, 3);
  // In pieces that cut lines.
  const std::string parts[3] = {lines_of('a', 300), lines_of('b', 300), lines_of('c', 300)};
  for (std::size_t at = 0; at < parts[0].size(); at += 77)
    for (std::size_t node = 0; node < 3; ++node) shown.feed(node, parts[node].substr(at, 77));
  const std::string text = room.read(3 * parts[0].size());
  REQUIRE(text.size() == 3 * parts[0].size());
  for (std::size_t at = 0; at < text.size(); at += 100)
    REQUIRE(text.substr(at, 100) == std::string(99, text[at]) + '\n');
  for (std::size_t node = 0; node < 3; ++node) CHECK(shown.taken(node) == parts[node].size());
  const auto second = std::make_shared<FakeChannel>();
  CHECK_THROWS_AS(shown.console.receive(0, false, second), std::invalid_argument);
}

TEST_CASE("A node that floods a slow console does not hold up another") {
  Room room;
  Shown shown(room, 2);
  // The flood fills the console and waits; then the other node has one line to say.
  const std::string flood = lines_of('f', 40);
  std::size_t flooded = 0;
  for (int i = 0; i < 1000; ++i, flooded += flood.size()) shown.feed(0, flood);
  room.context.run_for(milliseconds(50));
  room.context.restart();
  CHECK(shown.taken(0) < flooded);
  shown.feed(1, "the other one\n");
  const std::string text = room.read(flooded + 14);
  REQUIRE(text.size() == flooded + 14);
  const std::size_t place = text.find("the other one\n");
  REQUIRE(place != std::string::npos);
  // Behind what the console had taken already and a turn of the flood, not behind all of it.
  CHECK(place < 3 * flooded / 4);
}

TEST_CASE("A console that takes nothing ends in its time") {
  Room room;
  Shown shown(room, 1);
  for (int i = 0; i < 1000; ++i) shown.feed(0, lines_of('x', 40));
  bool done = false;
  shown.console.finish([&done] { done = true; });
  shown.console.give_up_after(milliseconds(100));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done && std::chrono::steady_clock::now() < deadline) {
    room.context.run_for(milliseconds(10));
    room.context.restart();
  }
  CHECK(done);
  room.reader.reset();  // lets the writing thread go
}
