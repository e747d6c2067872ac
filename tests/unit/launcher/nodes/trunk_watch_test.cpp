// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/core/trunk_watch.hpp"

#include "catch.hpp"

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;

TEST_CASE("Nodes that other hosts start are given up when nothing is heard of any") {
  const TrunkWatch::TimePoint begin{};
  TrunkWatch watch(begin, 26s, 200s);
  CHECK(watch.due() == begin + 26s);
  watch.progress(begin + 10s);
  CHECK(watch.due() == begin + 36s);
  watch.copying(begin + 11s);
  CHECK(watch.due() == begin + 11s + kCopyLateAfter);
  watch.progress(begin + 12s);
  CHECK(watch.due() == begin + 11s + kCopyLateAfter);
  watch.given_up();
  CHECK(watch.due() == TrunkWatch::TimePoint::max());
}

TEST_CASE("A host that always says something does not keep a job waiting for ever") {
  const TrunkWatch::TimePoint begin{};
  TrunkWatch watch(begin, 26s, 200s);
  for (auto now = begin; now < begin + 1000s; now += 1s) {
    watch.progress(now);
    watch.copying(now);
    CHECK(watch.due() <= begin + 200s);
  }
}

}  // namespace
}  // namespace muster::launcher
