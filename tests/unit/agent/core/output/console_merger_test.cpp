// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/console_merger.hpp"

#include "catch.hpp"

#include <string>

using muster::agent::ConsoleMerger;
using std::chrono::milliseconds;

namespace {

/// A merger of two sources, what it has shown so far, and a clock that moves when told to.
struct Screen {
  explicit Screen(ConsoleMerger::Options options = {}, const std::string& prefix_a = "",
                  const std::string& prefix_b = "")
      : merger(options), a(merger.add(prefix_a)), b(merger.add(prefix_b)) {}

  void feed(int source, const std::string& bytes) { merger.feed(source, bytes, now, shown); }

  void wait(int ms) {
    now += milliseconds(ms);
    merger.flush(now, shown);
  }

  ConsoleMerger merger;
  const int a;
  const int b;
  ConsoleMerger::TimePoint now{};
  std::string shown;
};

}  // namespace

TEST_CASE("Whole lines are shown at once and byte for byte") {
  Screen screen;
  screen.feed(screen.a, std::string("one\ntwo\0\xff\r\n\n", 12));
  CHECK(screen.shown == std::string("one\ntwo\0\xff\r\n\n", 12));
}

TEST_CASE("Lines of two sources never mix") {
  Screen screen;
  screen.feed(screen.a, "from ");
  screen.feed(screen.b, "other\nrest");
  screen.feed(screen.a, "a\n");
  screen.feed(screen.b, " of b\n");
  CHECK(screen.shown == "other\nfrom a\nrest of b\n");
}

TEST_CASE("An unfinished line is shown after a short while, and its source goes on directly") {
  Screen screen;
  screen.feed(screen.a, "name? ");
  CHECK(screen.shown.empty());
  REQUIRE(screen.merger.next_flush());
  CHECK(*screen.merger.next_flush() == screen.now + milliseconds(100));
  screen.wait(99);
  CHECK(screen.shown.empty());
  screen.wait(1);
  CHECK(screen.shown == "name? ");
  screen.feed(screen.a, "(y/n) ");
  CHECK(screen.shown == "name? (y/n) ");
  screen.feed(screen.a, "thanks\n");
  CHECK(screen.shown == "name? (y/n) thanks\n");
}

TEST_CASE("An unfinished line whose end waits for room is held until that has come") {
  Screen screen;
  screen.feed(screen.a, "from ");
  screen.feed(screen.b, "rest");
  screen.now += milliseconds(500);
  screen.merger.postpone(screen.a, screen.now);
  screen.merger.postpone(screen.b, screen.now);
  screen.merger.flush(screen.now, screen.shown);
  CHECK(screen.shown.empty());
  screen.feed(screen.a, "a\n");
  CHECK(screen.shown == "from a\n");
  screen.wait(100);
  CHECK(screen.shown == "from a\nrest");
}

TEST_CASE("An unfinished line is on display for one source at a time") {
  Screen screen;
  screen.feed(screen.a, "\r10%");
  screen.wait(100);
  screen.feed(screen.b, "\r11%");
  screen.wait(1000);
  CHECK(screen.shown == "\r10%");
  CHECK_FALSE(screen.merger.next_flush());
  screen.feed(screen.a, "\r20%");
  CHECK(screen.shown == "\r10%\r20%");
  screen.feed(screen.a, "\r100%\n");
  REQUIRE(screen.merger.next_flush());
  screen.wait(0);
  CHECK(screen.shown == "\r10%\r20%\r100%\n\r11%");
}

TEST_CASE("Whole lines of another source interrupt an unfinished one on a line of their own") {
  Screen screen;
  screen.feed(screen.a, "\r10%");
  screen.wait(100);
  screen.feed(screen.b, "loss 3\n");
  CHECK(screen.shown == "\r10%\nloss 3\n");
  screen.feed(screen.a, "\r20%");
  screen.wait(100);
  CHECK(screen.shown == "\r10%\nloss 3\n\r20%");

  SECTION("whose own newline, coming next, is not shown twice") {
    screen.feed(screen.b, "loss 2\n");
    screen.feed(screen.a, "\nnext\n");
    CHECK(screen.shown == "\r10%\nloss 3\n\r20%\nloss 2\nnext\n");
  }
}

TEST_CASE("A line without end is passed on in pieces") {
  ConsoleMerger::Options options;
  options.longest_line = 8;
  Screen screen(options);
  screen.feed(screen.a, "12345678");
  CHECK(screen.shown.empty());
  screen.feed(screen.a, "9");
  screen.feed(screen.a, "abc");
  CHECK(screen.shown == "123456789abc");
  screen.feed(screen.b, "b\n");
  screen.feed(screen.a, "def\n");
  CHECK(screen.shown == "123456789abc\nb\ndef\n");
}

TEST_CASE("A prefix stands before each line and after each carriage return") {
  Screen screen({}, "[a]", "[b]");
  screen.feed(screen.a, "one\n\ntw");
  screen.feed(screen.a, "o\n");
  CHECK(screen.shown == "[a]one\n[a]\n[a]two\n");
  screen.shown.clear();
  screen.feed(screen.a, "\r10%\r20%\r\nnext\r\n");
  CHECK(screen.shown == "\r[a]10%\r[a]20%\r\n[a]next\r\n");
  screen.shown.clear();

  SECTION("also if it arrives in pieces") {
    for (const char c : std::string("\r10%\r20%\r\nnext\r\n")) screen.feed(screen.a, std::string(1, c));
    CHECK(screen.shown == "\r[a]10%\r[a]20%\r\n[a]next\r\n");
  }
  SECTION("and again where an interrupted line goes on") {
    screen.feed(screen.a, "begin");
    screen.wait(100);
    screen.feed(screen.b, "x\n");
    screen.feed(screen.a, "end\n");
    CHECK(screen.shown == "[a]begin\n[b]x\n[a]end\n");
  }
  SECTION("and before a lone CR LF") {
    screen.feed(screen.a, "\r\n");
    CHECK(screen.shown == "\r[a]\n");
  }
}

TEST_CASE("A prefix that comes late stands before the next line") {
  Screen screen;
  screen.feed(screen.a, "one\ntw");
  screen.wait(100);
  screen.merger.set_prefix(screen.a, "a ");
  screen.merger.set_prefix(screen.b, "b ");
  screen.feed(screen.a, "o\nthree\n");
  screen.feed(screen.b, "four\n");
  CHECK(screen.shown == "one\ntwo\na three\nb four\n");
}

TEST_CASE("The end of a source shows what it has left") {
  Screen screen;
  screen.feed(screen.a, "last words");
  screen.merger.close(screen.a, screen.shown);
  CHECK(screen.shown == "last words");
  screen.feed(screen.b, "more");
  screen.wait(100);
  CHECK(screen.shown == "last words\nmore");
  screen.merger.close(screen.b, screen.shown);
  screen.merger.end(screen.shown);
  CHECK(screen.shown == "last words\nmore\n");
  screen.feed(screen.a, "ghost\n");
  CHECK(screen.shown == "last words\nmore\n");
}

TEST_CASE("A progress bar that cannot be shown does not grow for ever") {
  ConsoleMerger::Options options;
  options.terminal = GENERATE(true, false);
  Screen screen(options);
  screen.feed(screen.a, "busy");
  screen.wait(100);
  std::string all;
  for (int i = 0; i < 2000; ++i) {
    const std::string state = "\r" + std::to_string(i) + "%";
    all += state;
    screen.feed(screen.b, state);
  }
  screen.feed(screen.b, "\n");
  const std::string shown = screen.shown.substr(5);
  if (options.terminal) {
    CHECK(shown.size() < 5000);
    CHECK(all.ends_with(shown.substr(0, shown.size() - 1)));
  } else {
    CHECK(shown == all + "\n");
  }
}
