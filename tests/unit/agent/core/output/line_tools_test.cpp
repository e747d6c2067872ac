// SPDX-License-Identifier: Apache-2.0
#include "agent/core/output/last_lines.hpp"
#include "agent/core/output/line_filter.hpp"
#include "agent/core/output/line_prefix.hpp"
#include "agent/core/output/log_rotation.hpp"
#include "catch.hpp"

#include <time.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

using muster::agent::LastLines;
using muster::agent::line_prefix;
using muster::agent::LineFilter;
using muster::agent::LinePrefix;
using muster::agent::PrefixFields;
using muster::agent::PrefixTime;
using Lines = std::vector<std::string>;

namespace {

const PrefixFields kFields{"trainer", "n07", 12, 28};

std::string numbered(int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i) text += std::to_string(i) + "\n";
  return text;
}

Lines numbers(int first, int last) {
  Lines lines;
  for (int i = first; i <= last; ++i) lines.push_back(std::to_string(i));
  return lines;
}

}  // namespace

TEST_CASE("The default prefix is torchrun's") {
  CHECK(line_prefix("", PrefixFields{"default", "n07", 0, 0}) == "[default0]:");
  CHECK(line_prefix("", kFields) == "[trainer12]:");
}

TEST_CASE("A prefix template knows four names, with and without braces, and leaves the rest") {
  CHECK(line_prefix("${role_name}/$local_rank/${rank}/$hostname: ", kFields) == "trainer/12/28/n07: ");
  CHECK(line_prefix("$$rank ${other} $ ${rank $9", kFields) == "$rank ${other} $ ${rank $9");
  CHECK(line_prefix("$ranks ${rank}s$", kFields) == "$ranks 28s$");
  CHECK(line_prefix("${hostname}", PrefixFields{"r", "a\x1b[2J", 0, 0}) == "a\\x1b[2J");
}

TEST_CASE("A prefix tells when its line was read, where the template asks for it") {
  ::setenv("TZ", "MST+7", 1);
  ::tzset();
  const PrefixTime time{std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'000'007)),
                        std::chrono::milliseconds(61'020)};
  const std::string both = line_prefix("${time} $elapsed ", kFields, time);
  ::unsetenv("TZ");
  ::tzset();
  CHECK(both == "2023-11-14T15:13:20.007-07:00 61.020 ");
  CHECK(line_prefix("$$time", kFields, time) == "$time");
  CHECK(LinePrefix("${elapsed}", kFields).tells_time());
  CHECK(LinePrefix("[$time]", kFields).tells_time());
  CHECK_FALSE(LinePrefix("${rank} $$elapsed $times", kFields).tells_time());
}

TEST_CASE("A log file of a bounded size ends with a whole line where one fits") {
  using muster::agent::bytes_for_file;
  CHECK(bytes_for_file(1000, 0, "any", true) == 3);
  CHECK(bytes_for_file(0, 10, "0123456789", true) == 10);
  CHECK(bytes_for_file(0, 10, "12\n45\n789012", true) == 6);
  CHECK(bytes_for_file(6, 10, "78901\n", true) == 0);
  // A line that has begun in the file fills it, and one that fits into none is cut.
  CHECK(bytes_for_file(6, 10, "78901\n", false) == 4);
  CHECK(bytes_for_file(10, 10, "1\n", false) == 0);
  CHECK(bytes_for_file(0, 10, "01234567890\n", true) == 10);
  // A file of an earlier job may be larger.
  CHECK(bytes_for_file(99, 10, "1\n", true) == 0);
}

TEST_CASE("The last twenty lines are kept") {
  LastLines last;
  CHECK(last.empty());
  last.feed("\n");
  CHECK(last.lines() == Lines{""});
  last.feed(numbered(1, 100));
  CHECK(last.lines() == numbers(81, 100));
  last.feed(numbered(101, 103));
  CHECK(last.lines() == numbers(84, 103));
  last.feed("10");
  last.feed("4");
  CHECK(last.lines() == numbers(85, 104));
  last.feed("\n");
  CHECK(last.lines() == numbers(85, 104));
}

TEST_CASE("An unfinished line continues across chunks, also before a long chunk") {
  LastLines last;
  last.feed("be");
  last.feed("gin\nend");
  CHECK(last.lines() == Lines{"begin", "end"});
  last.feed(numbered(1, 19));
  Lines expected{"end1"};
  for (int i = 2; i <= 19; ++i) expected.push_back(std::to_string(i));
  expected.insert(expected.begin(), "begin");
  CHECK(last.lines() == expected);
  last.feed("lost");
  last.feed(numbered(1, 20));
  Lines twenty = numbers(1, 20);
  twenty[0] = "lost1";
  CHECK(last.lines() == twenty);
  last.feed("lost");
  last.feed(numbered(1, 21));
  CHECK(last.lines() == numbers(2, 21));
}

TEST_CASE("Only the text that a progress bar showed last counts") {
  LastLines last;
  last.feed("\r10%\r20%");
  CHECK(last.lines() == Lines{"20%"});
  last.feed("\r");
  CHECK(last.lines() == Lines{"20%"});
  last.feed("30%\r\ndone\r\n");
  CHECK(last.lines() == Lines{"30%", "done"});
}

TEST_CASE("A kept line is bounded") {
  LastLines last;
  for (int i = 0; i < 1000; ++i) last.feed(std::string(1000, 'x'));
  last.feed("y\nz\n");
  CHECK(last.lines() == Lines{std::string(LastLines::kLineBytes, 'x'), "z"});
}

TEST_CASE("A filter picks lines that contain any of its texts") {
  LineFilter filter({"apple", "a,b"}, "[r3]:");
  std::string picked;
  filter.feed("pear\nan app", picked);
  CHECK(picked.empty());
  filter.feed("le a day\nx a,b y\nab\nappl", picked);
  CHECK(picked == "[r3]:an apple a day\n[r3]:x a,b y\n");
  filter.feed("e", picked);
  filter.end(picked);
  CHECK(picked == "[r3]:an apple a day\n[r3]:x a,b y\n[r3]:apple\n");
}

TEST_CASE("A filter holds no more than one longest line") {
  LineFilter filter({"needle"}, "");
  std::string picked;
  for (int i = 0; i < 100; ++i) filter.feed(std::string(4096, 'x'), picked);
  CHECK(picked.empty());
  filter.feed("needle\n", picked);
  CHECK(picked.size() < LineFilter::kLongestLine + 8);
  CHECK(picked.ends_with("needle\n"));
}
