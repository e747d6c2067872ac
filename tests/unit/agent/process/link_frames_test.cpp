// SPDX-License-Identifier: Apache-2.0
#include "agent/process/link_frames.hpp"

#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/catch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

namespace {

using namespace muster;
using agent::LinkMessage;
using agent::LinkMessageReader;

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    in.reset(ends[0]);
    out.reset(ends[1]);
  }

  UniqueFd in;
  UniqueFd out;
};

std::vector<std::string> read_all(LinkMessageReader& reader, const Pipe& pipe, bool more) {
  std::vector<std::string> texts;
  CHECK(reader.read(pipe.in.get(), [&texts](const LinkMessage& message) {
    CHECK(message.kind == LinkMessage::Kind::notice);
    texts.push_back(std::to_string(message.number) + " " + message.body);
  }) == more);
  return texts;
}

void write_notice(const Pipe& pipe, LinkMessage::Notice kind, const std::string& text) {
  agent::write_link_message(pipe.out.get(), {LinkMessage::Kind::notice, kind, text},
                            std::chrono::steady_clock::now() + std::chrono::seconds(5));
}

TEST_CASE("Notices in a pipe come out whole, in order, and with their kinds") {
  Pipe pipe;
  LinkMessageReader reader;
  CHECK(read_all(reader, pipe, true).empty());
  const std::string two_lines = "first line\nsecond line " + std::string(2000, 'x');
  write_notice(pipe, LinkMessage::no_loss, two_lines);
  write_notice(pipe, LinkMessage::agent_lost, "killed by SIGKILL");
  CHECK(read_all(reader, pipe, true) == std::vector<std::string>{"3 " + two_lines, "2 killed by SIGKILL"});
  write_notice(pipe, LinkMessage::in_words, "the store process was lost");
  pipe.out.reset();
  CHECK(read_all(reader, pipe, false) == std::vector<std::string>{"1 the store process was lost"});
}

TEST_CASE("A notice that comes in pieces waits for its rest") {
  Pipe whole;
  write_notice(whole, LinkMessage::agent_lost, "killed by SIGSEGV");
  std::string bytes(512, '\0');
  bytes.resize(static_cast<std::size_t>(::read(whole.in.get(), bytes.data(), bytes.size())));
  Pipe pipe;
  LinkMessageReader reader;
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    REQUIRE(::write(pipe.out.get(), &bytes[i], 1) == 1);
    CHECK(read_all(reader, pipe, true).empty());
  }
  REQUIRE(::write(pipe.out.get(), &bytes.back(), 1) == 1);
  CHECK(read_all(reader, pipe, true) == std::vector<std::string>{"2 killed by SIGSEGV"});
}

TEST_CASE("What no muster writes is refused, and its length is judged first") {
  for (const std::string& bytes : {std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\1?", 5)}) {
    Pipe pipe;
    LinkMessageReader reader;
    REQUIRE(::write(pipe.out.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    CHECK_THROWS_AS(reader.read(pipe.in.get(), [](const LinkMessage&) {}), std::exception);
  }
}

}  // namespace
