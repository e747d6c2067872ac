// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/backoff.hpp"

#include "catch.hpp"

using namespace muster::rendezvous;

TEST_CASE("Waits grow by the factor up to the cap, and begin anew after a success") {
  Backoff backoff({Milliseconds(100), 2.0, 0.0, Milliseconds(350)}, [] { return 0.7; });
  CHECK(backoff.next() == Milliseconds(100));
  CHECK(backoff.next() == Milliseconds(200));
  CHECK(backoff.next() == Milliseconds(350));
  CHECK(backoff.next() == Milliseconds(350));
  backoff.reset();
  CHECK(backoff.next() == Milliseconds(100));
}

TEST_CASE("Jitter spreads a wait to both sides and never over the cap") {
  double random = 0.0;
  Backoff backoff({Milliseconds(100), 1.0, 0.5, Milliseconds(120)}, [&random] { return random; });
  CHECK(backoff.next() == Milliseconds(50));
  random = 0.5;
  CHECK(backoff.next() == Milliseconds(100));
  random = 0.999;
  CHECK(backoff.next() == Milliseconds(120));
}
