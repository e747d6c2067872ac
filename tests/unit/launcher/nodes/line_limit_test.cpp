// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "launcher/nodes/core/node_words.hpp"

using muster::launcher::LineLimit;

TEST_CASE("a node's lines are shown up to the limit, and what is left out is counted") {
  const LineLimit::TimePoint begin{};
  LineLimit limit;
  std::size_t shown = 0;
  for (int i = 0; i < 1000; ++i)
    if (limit.admit(begin + std::chrono::milliseconds(i))) ++shown;
  CHECK(shown == LineLimit::kLines);
  CHECK(limit.take_left_out(begin + std::chrono::seconds(1), false) == 0);
  const auto later = begin + LineLimit::kStretch;
  CHECK(limit.take_left_out(later, false) == 1000 - LineLimit::kLines);
  CHECK(limit.take_left_out(later, false) == 0);
  CHECK(limit.admit(later));
}

TEST_CASE("at the end the count is told at once") {
  const LineLimit::TimePoint begin{};
  LineLimit limit;
  for (std::size_t i = 0; i < LineLimit::kLines + 7; ++i) limit.admit(begin);
  CHECK(limit.take_left_out(begin, true) == 7);
}
