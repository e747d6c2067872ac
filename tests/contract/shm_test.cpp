// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "tests/contract/contract.hpp"
#include "tests/support/shm_groups.hpp"

namespace muster {
namespace {

TEST_CASE("shm between processes keeps the contract") {
  contract::Options options;
  options.rank_order = true;
  options.worlds = {1, 2, 3, 4, 8};
#ifdef MUSTER_SANITIZED
  options.quick = true;
#endif
  contract::check_in_processes(
      [](StoreClient& store, int rank, int size, const ProcessGroupOptions& group) {
        return make_shm_process_group(&store, rank, size, group);
      },
      options);
}

}  // namespace
}  // namespace muster
