// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/terminal_filter.hpp"

#include "catch.hpp"
#include "tests/fuzz/terminal/terminal_check.hpp"

#include <string>
#include <string_view>

using muster::agent::TerminalFilter;
using muster::test::check_filter;
using namespace std::string_literals;

namespace {

void check_kept(const std::string& bytes) {
  CHECK(check_filter(bytes) == bytes);
}

}  // namespace

TEST_CASE("Text, colours, erasing and cursor movement pass") {
  check_kept("plain\ttext\b\r\n 50%|##  |\r");
  check_kept("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0");
  check_kept("\x1b[m\x1b[0;1;31m\x1b[38;2;1;2;3m\x1b[4:3m\x1b[38:2::1:2:3m\x1b(B\x1b[m");
  check_kept(
      "\x1b[A\x1b[12B\x1b[C\x1b[D\x1b[2E\x1b[F\x1b[7G\x1b[H\x1b[3;4H\x1b[3;4f\x1b[5d\x1b[5e\x1b[5a\x1b[5`"
      "\x1b[I\x1b[Z");
  check_kept(
      "\x1b[s\x1b[u\x1b"
      "7\x1b"
      "8");
  check_kept("\x1b[J\x1b[2J\x1b[3J\x1b[K\x1b[1K\x1b[4X\x1b[P\x1b[@\x1b[L\x1b[M");
}

TEST_CASE("A bar of progress hides the cursor, and it is shown again at the latest at the end") {
  check_kept("\x1b[?25l 50% \x1b[?25h");
  CHECK(check_filter("\x1b[?25l 50%") == "\x1b[?25l 50%\x1b[?25h");
  CHECK(check_filter("\x1b[?25") == "\\x1b[?25");
  CHECK(check_filter("\x1b[?2\x1b[?25h") == "\\x1b[?2\x1b[?25h");
}

TEST_CASE("What sets titles, modes or the clipboard, or asks the terminal, is shown") {
  CHECK(check_filter("a\x1b]0;title\a b") == "a\\x1b]0;title\\x07 b");
  CHECK(check_filter("\x1b]52;c;aGk=\x1b\\") == "\\x1b]52;c;aGk=\\x1b\\");
  CHECK(check_filter("\x1bPq\x1b_G\x1b^m\x1bXs") == "\\x1bPq\\x1b_G\\x1b^m\\x1bXs");
  CHECK(check_filter("\x1b[4h\x1b[?1049h\x1b[?251h\x1b[?25;7l\x1b[?2h\x1b[25h") ==
        "\\x1b[4h\\x1b[?1049h\\x1b[?251h\\x1b[?25;7l\\x1b[?2h\\x1b[25h");
  CHECK(check_filter("\x1b[6n\x1b[c\x1b[>c\x1b[0c\x1b[x") == "\\x1b[6n\\x1b[c\\x1b[>c\\x1b[0c\\x1b[x");
  CHECK(check_filter("\x1b[21t\x1b[2 q\x1b[!p\x1b[2;3r\x1b[9b") ==
        "\\x1b[21t\\x1b[2 q\\x1b[!p\\x1b[2;3r\\x1b[9b");
  CHECK(check_filter("\x1b[>4;2m\x1b[?4m\x1b[1;5s\x1b[?u\x1b[>1u") ==
        "\\x1b[>4;2m\\x1b[?4m\\x1b[1;5s\\x1b[?u\\x1b[>1u");
  // Reset, alignment test, line drawing, reverse index, next line, shift and keypad.
  CHECK(check_filter("\033c\033#8\033(0\033M\033E\033N\033=") ==
        "\\x1bc\\x1b#8\\x1b(0\\x1bM\\x1bE\\x1bN\\x1b=");
}

TEST_CASE("Other controls, DEL, C1 and what is no UTF-8 are shown") {
  CHECK(check_filter("\0\a\v\f\x0e\x18\x7f"s) == "\\x00\\x07\\x0b\\x0c\\x0e\\x18\\x7f");
  CHECK(check_filter("\xc2\x9b"
                     "31m") ==
        "\\x9b"
        "31m");
  CHECK(check_filter("\x9b"
                     "31m") ==
        "\\x9b"
        "31m");
  CHECK(check_filter("\xc0\xaf\xed\xa0\x80\xf5") == "\\xc0\\xaf\\xed\\xa0\\x80\\xf5");
}

TEST_CASE("A sequence that is interrupted is shown, and what interrupts it counts") {
  CHECK(check_filter("\x1b[3\x1b[31mred") == "\\x1b[3\x1b[31mred");
  CHECK(check_filter("\x1b\x1b[A") == "\\x1b\x1b[A");
  CHECK(check_filter("\x1b[3\nm") == "\\x1b[3\nm");
  CHECK(check_filter("\xe2\x82\x1b[A") == "\\xe2\\x82\x1b[A");
  CHECK(check_filter("\xe2\x82") == "\\xe2\\x82");
  CHECK(check_filter("\x1b[31") == "\\x1b[31");
}

TEST_CASE("A sequence that never ends is shown, not held") {
  TerminalFilter filter;
  std::string room;
  std::string result(filter.feed("\x1b[", room));
  for (std::size_t i = 2; i < TerminalFilter::kLongestSequence - 1; ++i) result += filter.feed("1", room);
  CHECK(result.empty());
  CHECK(filter.feed("1", room) == "\\x1b[" + std::string(TerminalFilter::kLongestSequence - 2, '1'));
  CHECK(filter.feed("1m", room) == "1m");
  // The longest that passes.
  check_kept("\x1b[" + std::string(TerminalFilter::kLongestSequence - 3, '1') + "m");
}

TEST_CASE("Text that needs no change is not even copied") {
  TerminalFilter filter;
  std::string room;
  const std::string text = "a line of \t text\r\n";
  CHECK(filter.feed(text, room).data() == text.data());
}
