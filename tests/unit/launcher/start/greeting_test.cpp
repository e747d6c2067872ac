// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/greeting.hpp"

#include "catch.hpp"

using namespace muster::launcher;
using State = GreetingReader::State;

namespace {

/// In pieces of every size; returns what the reader left.
std::string feed_in_pieces(GreetingReader& reader, std::string_view text, std::size_t piece) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, piece);
    const std::size_t taken = reader.feed(part);
    text.remove_prefix(taken);
    if (taken < part.size()) break;
  }
  return std::string(text);
}

}  // namespace

TEST_CASE("The greeting is found, and what follows it is left alone") {
  for (std::size_t piece = 1; piece < 40; ++piece) {
    GreetingReader reader;
    CHECK(feed_in_pieces(reader, "\nmuster-agent 3 0.1.0\n\nframe", piece) == "\nframe");
    CHECK(reader.state() == State::greeted);
    CHECK(reader.protocol() == 3);
    CHECK(reader.version() == "0.1.0");
    CHECK(reader.junk().empty());
  }
}

TEST_CASE("What a login shell prints before it is skipped and kept") {
  for (std::size_t piece = 1; piece < 40; ++piece) {
    GreetingReader reader;
    CHECK(feed_in_pieces(reader, "Welcome\r\nno newline\nmuster-agent 3 2.0\nx", piece) == "x");
    CHECK(reader.state() == State::greeted);
    CHECK(reader.junk() == "Welcome\r\nno newline\n");
  }
  GreetingReader talks_about_it;
  talks_about_it.feed("the muster-agent 3 0.1.0\nmuster-agent x\n");
  CHECK(talks_about_it.state() == State::waiting);
}

TEST_CASE("Junk without end is not read without end") {
  GreetingReader reader;
  const std::string flood(GreetingReader::kJunkBytesMax, 'y');
  CHECK(reader.feed(flood) == flood.size());
  CHECK(reader.state() == State::waiting);
  CHECK(reader.feed("y") == 0);
  CHECK(reader.state() == State::too_much);
  CHECK(reader.junk().size() <= GreetingReader::kJunkBytesMax);
}

TEST_CASE("A host may ask for a copy first") {
  GreetingReader reader;
  const std::string_view text = "hello\n\nmuster-push 1 4096\n\nmuster-agent 3 0.1.0\n";
  const std::size_t taken = reader.feed(text);
  REQUIRE(reader.state() == State::push_wanted);
  CHECK(reader.push_bytes() == 4096);
  reader.pushed();
  CHECK(reader.feed(text.substr(taken)) == text.size() - taken);
  CHECK(reader.state() == State::greeted);

  GreetingReader broken;
  broken.feed("\nmuster-push 1 12x\nmuster-push 1 99999999999999999999\nmuster-push 1\n");
  CHECK(broken.state() == State::waiting);
}
