// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/screen.hpp"

#include "catch.hpp"

#include <cctype>
#include <random>
#include <string>
#include <vector>

using namespace muster::launcher;

namespace {

/// A terminal of few columns that knows what difference() writes, and nothing else.
struct Terminal {
  std::vector<std::string> rows = std::vector<std::string>(8, std::string(10, ' '));
  std::size_t row = 0;
  std::size_t column = 0;

  void take(const std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] != '\x1b') {
        REQUIRE(column < 10);
        rows.at(row).at(column++) = bytes[i];
        continue;
      }
      REQUIRE(bytes.at(++i) == '[');
      std::string numbers;
      while (std::isalpha(static_cast<unsigned char>(bytes.at(++i))) == 0) numbers += bytes[i];
      if (bytes[i] == 'H') {
        row = std::stoul(numbers) - 1;
        column = std::stoul(numbers.substr(numbers.find(';') + 1)) - 1;
      } else if (bytes[i] == 'K') {
        rows.at(row).replace(column, 10 - column, 10 - column, ' ');
      } else {
        REQUIRE(bytes[i] == 'm');
      }
    }
  }

  void check_shows(const Picture& picture) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::string wanted = i < picture.size() ? picture[i].text : "";
      wanted.resize(10, ' ');
      CHECK(rows[i] == wanted);
    }
  }
};

}  // namespace

TEST_CASE("Only lines that differ are written, and those that are gone are cleared") {
  const Picture before{{"job"}, {"rank 0"}, {"rank 1"}};
  CHECK(difference(before, before, true).empty());
  CHECK(difference(before, {{"job"}, {"rank 0!"}}, true) == "\x1b[2;1Hrank 0!\x1b[K\x1b[3;1H\x1b[K");
  CHECK(difference({}, {{"job"}}, true) == "\x1b[1;1Hjob\x1b[K");
}

TEST_CASE("A line whose tone changes is written anew, without colours where none are wanted") {
  const Picture before{{"rank 0", Tone::plain}};
  const Picture after{{"rank 0", Tone::alarm}};
  CHECK(difference(before, after, true) == "\x1b[1;1H\x1b[1;31mrank 0\x1b[0m\x1b[K");
  CHECK(difference(before, after, false) == "\x1b[1;1Hrank 0\x1b[K");
  CHECK(painted({"x", Tone::heading}, true) == "\x1b[1mx\x1b[0m");
  CHECK(painted({"x", Tone::warning}, true) == "\x1b[33mx\x1b[0m");
}

TEST_CASE("A terminal that shows one picture shows the next after their difference") {
  std::mt19937 random(7);
  Terminal terminal;
  Picture shown;
  for (int i = 0; i < 300; ++i) {
    Picture wanted(random() % 8);
    for (ScreenLine& line : wanted) {
      line.text = std::string(random() % 9, static_cast<char>('a' + random() % 3));
      line.tone = static_cast<Tone>(random() % 4);
    }
    terminal.take(difference(shown, wanted, true));
    terminal.check_shows(wanted);
    shown = wanted;
  }
}

TEST_CASE("A text is cut at a width, in which characters that may be wide count as two") {
  CHECK(cut_to("training", 5) == "train");
  CHECK(cut_to("a\tb", 5) == "a b");
  CHECK(cut_to("\xe6\x97\xa5\xe6\x9c\xac", 3) == "\xe6\x97\xa5");
  CHECK(cut_to("\xff\xff", 1) == "\xff");
  CHECK(cut_to("", 5).empty());
  CHECK(cut_to("x", 0).empty());
}

TEST_CASE("A long text is broken at spaces") {
  CHECK(wrapped("rank 1 is hung: it sleeps", 12, 4) ==
        std::vector<std::string>{"rank 1 is", "    hung: it", "    sleeps"});
  CHECK(wrapped("rank 1 is hung: it sleeps", 12, 2).size() == 2);
  CHECK(wrapped(std::string(20, 'k'), 12, 4) ==
        std::vector<std::string>{std::string(12, 'k'), "    " + std::string(8, 'k')});
  CHECK(wrapped("", 12, 4).empty());
}
