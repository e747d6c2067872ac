// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/log/terminal_text.hpp"

#include "catch.hpp"

using muster::for_terminal;
using namespace std::string_literals;

TEST_CASE("Control characters and broken UTF-8 are escaped, text is not") {
  CHECK(for_terminal("plain\ttext") == "plain\ttext");
  CHECK(for_terminal("\x1b[31m\a\r\x7f") == "\\x1b[31m\\x07\\x0d\\x7f");
  CHECK(for_terminal("\0"s) == "\\x00");
  CHECK(for_terminal("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") == "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(for_terminal("\xc2\x9b") == "\\x9b");                // C1, written properly
  CHECK(for_terminal("\x9b") == "\\x9b");                    // C1 as a bare byte
  CHECK(for_terminal("\xc0\xaf") == "\\xc0\\xaf");           // overlong
  CHECK(for_terminal("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");  // overlong
  CHECK(for_terminal("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // surrogate
  CHECK(for_terminal("\xf5\x80\x80\x80").find("\\xf5") == 0);
  CHECK(for_terminal("\xe2\x82") == "\\xe2\\x82");  // cut off
}
