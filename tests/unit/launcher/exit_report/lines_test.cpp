// SPDX-License-Identifier: Apache-2.0
#include "launcher/exit_report/lines.hpp"

#include "catch.hpp"

using namespace muster::launcher;

TEST_CASE("Lines") {
  using Lines = std::vector<std::string>;
  CHECK(lines_of("").empty());
  CHECK(lines_of("a\nb\r\n") == Lines{"a", "b"});
  CHECK(lines_of("\n\nx") == Lines{"", "", "x"});
}

TEST_CASE("Rank lists are short") {
  CHECK(rank_list({}).empty());
  CHECK(rank_list({3}) == "3");
  CHECK(rank_list({1, 0}) == "0, 1");
  CHECK(rank_list({5, 2, 0, 1}) == "0-2, 5");
  CHECK(rank_list({0, 1, 3, 4, 5}) == "0, 1, 3-5");
}
