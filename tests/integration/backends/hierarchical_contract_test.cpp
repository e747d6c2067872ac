// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "tests/integration/backends/world.hpp"

namespace muster {
namespace {

TEST_CASE("the backend of several hosts keeps the contract") {
  contract::Options options;
  options.quick = true;
  options.usual_mismatch_seconds = 0.1;  // from one transport to the other
  // Three ranks on two hosts; then several ranks on each.
  options.worlds = {3, 8};
  contract::check_in_processes(test::maker_of_hosts("hierarchical", 2), options);
}

TEST_CASE("three hosts, and ranks of a host that do not follow one another") {
  contract::Options options;
  options.quick = true;
  options.usual_mismatch_seconds = 0.1;  // from one transport to the other
  options.worlds = {5};
  contract::check_in_processes(
      [](StoreClient& store, int rank, int size, const ProcessGroupOptions& group) {
        SelectOptions choice = test::world_of("hierarchical", rank, size, group);
        choice.host = std::string(1, static_cast<char>('a' + rank % 3));
        return test::make_world(store, choice);
      },
      options);
}

}  // namespace
}  // namespace muster
