// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "tests/integration/backends/world.hpp"

namespace muster {
namespace {

TEST_CASE("gloo keeps the contract") {
  contract::Options options;
  options.rank_order = true;
  options.worlds = {2, 3};
  contract::check_in_processes(test::maker_of("gloo"), options);
}

TEST_CASE("gloo keeps the contract where ranks share cores") {
  contract::Options options;
  options.rank_order = true;
  options.quick = true;
  options.worlds = {4, 8};
  contract::check_in_processes(test::maker_of("gloo"), options);
}

}  // namespace
}  // namespace muster
