// SPDX-License-Identifier: Apache-2.0
// The fuzzer's property, in every build: on every pair and triple of the bytes that matter, and on random
// mixtures of them.
#include "catch.hpp"
#include "tests/fuzz/terminal/terminal_check.hpp"
#include "tests/fuzz/terminal/terminal_model.hpp"

#include <random>
#include <string>
#include <vector>

using muster::test::check_filter;
using muster::test::TerminalModel;

namespace {

#ifdef MUSTER_SANITIZED
constexpr std::size_t kStride = 60;  // of the triples, in place of all of them
#else
constexpr std::size_t kStride = 1;
#endif

/// Beginnings, middles and ends of what terminals act on, and bytes that cut them.
const std::vector<std::string> kPieces = {
    "\x1b", "[",    "]",    "?",        ">",        "0",    ";",        ":",    "1;31",      "m",
    "h",    "l",    "n",    "c",        "J",        "H",    "s",        "u",    "t",         "q",
    " ",    "$",    "!",    "7",        "8",        "(",    "B",        "P",    "_",         "^",
    "X",    "\\",   "M",    "#",        "\a",       "\b",   "\t",       "\n",   "\v",        "\f",
    "\r",   "\x0e", "\x18", "\x1a",     "\x7f",     "\x80", "\x9b",     "\x9d", "\xc2",      "\xc3",
    "\xe2", "\x82", "\xac", "\xe2\x82", "\xf0\x9f", "\xff", "\xc2\x9b", "a",    "plain text"};

}  // namespace

TEST_CASE("The judge sees what a filter must not let through") {
  const auto kinds = [](const std::string& bytes) {
    std::string text;
    TerminalModel terminal(
        [&text](const TerminalModel::Action& action) { text += "pxecs!"[static_cast<int>(action.kind)]; });
    terminal.feed(bytes);
    return text + (terminal.at_rest() ? "" : "...");
  };
  CHECK(kinds("a\xc3\xa9\xe2\x82\xac\n") == "pppx");
  CHECK(kinds("\x1b]0;title\a after") == "spppppp");
  CHECK(kinds("\x1bPq\x1b\\") == "se");
  CHECK(kinds("\x1b[?25l\x1b[1;2H") == "cc");
  CHECK(kinds("\x1b[1\x1b[2\r3m") == "xc");
  CHECK(kinds("\x1b(B\x1b#8\x1b"
              "7") == "eee");
  CHECK(kinds("\xc2\x9b") == "x");
  CHECK(kinds("\x9b"
              "31m\xc0\x80") == "!ppp!");
  CHECK(kinds("\x1b[31") == "...");
  CHECK(kinds("\xe2\x82") == "...");
}

TEST_CASE("Any three pieces after one another are harmless on a terminal") {
  std::size_t triple = 0;
  for (const std::string& first : {std::string(), std::string("\x1b"), std::string("\x1b[")})
    for (const std::string& second : kPieces)
      for (const std::string& third : kPieces)
        for (const std::string& fourth : kPieces) {
          if (triple++ % kStride != 0) continue;
          std::string text = first;
          text.append(second).append(third).append(fourth);
          check_filter(text);
        }
}

TEST_CASE("Random mixtures are harmless on a terminal") {
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    std::string text;
    const std::size_t pieces = random() % 60;
    for (std::size_t k = 0; k < pieces; ++k) {
      if (random() % 4 == 0)
        text += static_cast<char>(random());
      else
        text += kPieces[random() % kPieces.size()];
      if (random() % 50 == 0) text += "\x1b[" + std::string(random() % 200, '1');
    }
    check_filter(text);
  }
}
