// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/console_frame.hpp"

#include "agent/core/output/console_merger.hpp"
#include "catch.hpp"

#include <string>

using namespace muster::agent;
using std::chrono::milliseconds;

namespace {

/// Two workers whose lines become frames.
struct Frames {
  void feed(int source, const std::string& bytes) { merger.feed(source, bytes, now, out); }

  void wait(int ms) {
    now += milliseconds(ms);
    merger.flush(now, out);
  }

  ConsoleMerger merger = ConsoleMerger({.framed = true});
  int a = merger.add(frame_prefix(0, 4));
  int b = merger.add(frame_prefix(0, 5));
  ConsoleMerger::TimePoint now{};
  std::string out;
};

const std::string kA = frame_prefix(0, 4);
const std::string kB = frame_prefix(0, 5);

}  // namespace

TEST_CASE("A frame says round and rank, and whether its line ends") {
  const std::string whole = frame_prefix(3, 12) + "=a\tb \x1f";
  const auto frame = parse_frame(whole);
  REQUIRE(frame);
  CHECK((frame->round == 3 && frame->rank == 12 && frame->ends_line && frame->text == "a\tb \x1f"));
  CHECK_FALSE(parse_frame(frame_prefix(3, 12) + "+")->ends_line);
  for (const char* line : {"", "x", "\x1f",
                           "\x1f"
                           "1 2",
                           "\x1f"
                           "1 2 ",
                           "\x1f"
                           "1 2 -x",
                           "\x1f-1 2 =x",
                           "\x1f"
                           "1 x =x",
                           "\x1f"
                           "end 0"}) {
    CAPTURE(line);
    CHECK_FALSE(parse_frame(line));
  }
}

TEST_CASE("Each line of a worker is one frame, however it is written") {
  Frames frames;
  frames.feed(frames.a, "one\ntw");
  frames.feed(frames.b, "x\n\n");
  frames.feed(frames.a, "o");
  frames.feed(frames.a, "\n10%\r20%\r\n");
  CHECK(frames.out == kA + "=one\n" + kB + "=x\n" + kB + "=\n" + kA + "=two\n" + kA + "=10%\r20%\r\n");
}

TEST_CASE("An unfinished line is a frame after a short while, and the next one says that it goes on") {
  Frames frames;
  frames.feed(frames.a, "name? ");
  frames.wait(99);
  CHECK(frames.out.empty());
  frames.wait(1);
  frames.feed(frames.b, "x\n");
  frames.feed(frames.a, "y\n");
  frames.feed(frames.a, "end");
  frames.merger.close(frames.a, frames.out);
  frames.merger.end(frames.out);
  CHECK(frames.out == kA + "+name? \n" + kB + "=x\n" + kA + "=y\n" + kA + "+end\n");
}

TEST_CASE("A long line is several frames, none of which is longer than it may be") {
  Frames frames;
  const std::string text(3 * kFrameTextMax, 'x');
  frames.feed(frames.a, text + "\n");
  std::string whole;
  std::size_t begin = 0;
  for (std::size_t end = frames.out.find('\n'); end != std::string::npos;
       end = frames.out.find('\n', begin)) {
    const auto frame = parse_frame(std::string_view(frames.out).substr(begin, end - begin));
    REQUIRE(frame);
    CHECK(frame->text.size() <= kFrameTextMax);
    whole += std::string(frame->text) + (frame->ends_line ? "\n" : "");
    begin = end + 1;
  }
  CHECK(whole == text + "\n");
}
