// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "launcher/exit_report/finish_job.hpp"

using namespace muster::launcher;

TEST_CASE("Lines") {
  using Lines = std::vector<std::string>;
  CHECK(lines_of("").empty());
  CHECK(lines_of("a\nb\r\n") == Lines{"a", "b"});
  CHECK(lines_of("\n\nx") == Lines{"", "", "x"});
}
