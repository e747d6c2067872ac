// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "rendezvous/base/allowance.hpp"
#include "worker_sdk/env/place.hpp"

#include <sched.h>

#include <algorithm>
#include <vector>

using muster::processor_mask;
using muster::processor_share;
using Masks = std::vector<std::string>;

TEST_CASE("Processes that are bound have their processors whole, others share") {
  const Masks unbound(3, "1111111");
  CHECK(processor_share(unbound, 2) == 2);
  const Masks bound = {"11110000", "00001111"};
  CHECK(processor_share(bound, 0) == 4);
  CHECK(processor_share(bound, 1) == 4);
  // Two on one half, one on the other; masks end with their last processor.
  const Masks halves = {"1111", "1111", "00001111"};
  CHECK(processor_share(halves, 0) == 2);
  CHECK(processor_share(halves, 2) == 4);
  const Masks crowd(5, "11");
  CHECK(processor_share(crowd, 0) == 1);
}

TEST_CASE("A quota is shared by the processes that have the same") {
  const Masks container(2, "11111111 3 /box");
  CHECK(processor_share(container, 0) == 1);
  CHECK(processor_share(Masks(1, "11111111 3 /box"), 0) == 3);
  // Each in a container of its own.
  const Masks apart = {"11111111 3 /box", "11111111 2 /other"};
  CHECK(processor_share(apart, 0) == 3);
  CHECK(processor_share(apart, 1) == 2);
  CHECK(processor_share(Masks(1, "11 3 /box"), 0) == 2);
}

TEST_CASE("The mask is that of this thread") {
  const std::string before = processor_mask();
  REQUIRE(before.find('1') != std::string::npos);
  cpu_set_t old;
  REQUIRE(sched_getaffinity(0, sizeof old, &old) == 0);
  CHECK(std::count(before.begin(), before.end(), '1') == CPU_COUNT(&old));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(before.rfind('1'), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const std::string bound = processor_mask();
  REQUIRE(sched_setaffinity(0, sizeof old, &old) == 0);
  CHECK(bound == std::string(before.rfind('1'), '0') + "1");
}
