// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/stop_notice.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <filesystem>

namespace stop_notice_test {

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("The stop file is looked for ten times a second, and what was seen stays") {
  const test::Folder folder;
  StopNotice notice(folder / "stop");
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(notice.seen(start));
  folder.write("stop", "{}\n");
  CHECK_FALSE(notice.seen(start + 99ms));
  CHECK(notice.seen(start + 100ms));
  std::filesystem::remove(folder / "stop");
  CHECK(notice.seen(start + 500ms));
}

TEST_CASE("The first look is at once, and without a path there is nothing to see") {
  const test::Folder folder;
  folder.write("stop", "");
  CHECK(StopNotice(folder / "stop").seen());
  CHECK_FALSE(StopNotice("").seen());
}

}  // namespace stop_notice_test
