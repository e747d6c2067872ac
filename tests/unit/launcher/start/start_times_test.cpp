// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/start_times.hpp"

#include "catch.hpp"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;

TEST_CASE("A login has what the user gives it, less what is needed to say why it failed") {
  CHECK(greeting_limit(10s, 1) == 9s);
  CHECK(greeting_limit(60s, 1) == 59s);
  CHECK(greeting_limit(1s, 1) == 500ms);
  CHECK(greeting_limit(10s, 0) == 9s);
  CHECK(greeting_limit(10s, 5) == 10s);
  CHECK(greeting_limit(10s, 10'000) == 9s + 63 * 250ms);
  CHECK(connect_timeout_s(10s) == 8);
  CHECK(connect_timeout_s(60s) == 58);
  CHECK(connect_timeout_s(500ms) == 1);
}

}  // namespace
}  // namespace muster::launcher
