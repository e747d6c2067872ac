// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "tests/integration/comm/store_suite.hpp"

TEST_CASE("the client does all its operations on our server") {
  const muster::test::StoreProcess server;
  muster::test::exercise_store(server.port());
}

TEST_CASE("the store of a world of one does the same operations") {
  muster::test::exercise_store(*muster::make_local_store());
}
