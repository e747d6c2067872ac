// SPDX-License-Identifier: Apache-2.0
// A flood must not get slower by being looked at.
#include "agent/core/output/terminal_filter.hpp"
#include "catch.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

namespace {

// A tenth of what an ordinary core does; far less where the lack of optimization slows it.
#ifdef __OPTIMIZE__
constexpr double kOfBound = 1;
#else
constexpr double kOfBound = 0.02;
#endif
constexpr std::size_t kChunk = std::size_t{64} << 10;

/// MB/s of `line`, repeated, in chunks as they come from a pipe.
double speed_of_one_try(std::string_view line) {
  std::string chunk;
  while (chunk.size() < kChunk) chunk += line;
  muster::agent::TerminalFilter filter;
  std::string room;
  std::size_t bytes = 0;
  std::size_t shown = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> took{0};
  do {
    for (int i = 0; i < 16; ++i) {
      shown += filter.feed(chunk, room).size();
      bytes += chunk.size();
    }
    took = std::chrono::steady_clock::now() - begin;
  } while (took.count() < 0.1);
  REQUIRE(shown >= bytes);
  return static_cast<double>(bytes) / took.count() / 1e6;
}

/// That of the fastest of some tries: others on the machine make none faster.
double speed(std::string_view line) {
  double fastest = 0;
  for (int attempt = 0; attempt < 5; ++attempt) fastest = std::max(fastest, speed_of_one_try(line));
  return fastest;
}

/// What is wrong with that speed; empty if it is above the bound.
std::string slow(const char* what, double found, double bound) {
  if (found > bound * kOfBound) return {};
  return std::string("too late: ") + what + ": " + std::to_string(found) + " MB/s";
}

}  // namespace

TEST_CASE("A flood is looked at faster than workers can print") {
  const double plain =
      speed("step 1234 of 100000: loss 0.4312, 1234.5 samples/s on cuda:3, memory 12.3 GiB\n");
  const double colours =
      speed("\x1b[32mINFO\x1b[0m step 1234: loss \x1b[1;33m0.4312\x1b[0m, 1234.5 samples/s\r\n");
  const double letters = speed(
      "\xd1\x88\xd0\xb0\xd0\xb3 1234 \xe6\xad\xa5\xe9\xaa\xa4: "
      "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88 50%\n");
  const double hostile = speed("\x1b[\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1\x1b[?\x1b]\xff\x80\xe2\x82");
  WARN("plain " << plain << " MB/s, colours " << colours << " MB/s, other letters " << letters
                << " MB/s, hostile " << hostile << " MB/s");
  CHECK(slow("plain", plain, 400) == "");
  CHECK(slow("colours", colours, 30) == "");
  CHECK(slow("other letters", letters, 12) == "");
  CHECK(slow("hostile", hostile, 10) == "");
}
