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

TEST_CASE("Whoever waits for a host that starts others is more patient than that host") {
  for (const std::chrono::milliseconds timeout : {1'000ms, 10'000ms, 60'000ms, 600'000ms})
    for (const std::size_t width : {2U, 4U, 64U}) {
      CHECK(silence_limit(timeout, width) >= greeting_limit(timeout, width + 1) + 5s);
      CHECK(silence_limit(timeout, width) >= kForkLateAfter + 5s);
      CHECK(tree_limit(timeout, width, 1, false) > silence_limit(timeout, width));
      CHECK(tree_limit(timeout, width, 3, false) == 3 * tree_limit(timeout, width, 1, false));
      CHECK(tree_limit(timeout, width, 1, true) > tree_limit(timeout, width, 1, false));
    }
}

TEST_CASE("The longest login timeout of the command line makes no moment that a clock does not have") {
  const auto most = tree_limit(std::chrono::milliseconds(100'000'000'000), 64, 14, true);
  CHECK(std::chrono::steady_clock::now() + most > std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace muster::launcher
