// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "tests/integration/backends/world.hpp"

namespace muster {
namespace {

TEST_CASE("gloo keeps the contract") {
  contract::Options options;
  options.rank_order = true;
#ifdef MUSTER_SANITIZED
  // The same code with fewer sizes: all of them are tried in the tree without sanitizers.
  options.quick = true;
  options.worlds = {3, 8};
#else
  options.worlds = {2, 3};
#endif
  contract::check_in_processes(test::maker_of("gloo"), options);
}

}  // namespace
}  // namespace muster
