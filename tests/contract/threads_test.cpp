// SPDX-License-Identifier: Apache-2.0
// The shared-memory algorithms as N worlds in N threads of one process: what ThreadSanitizer can see.
#include "catch.hpp"
#include "tests/contract/contract.hpp"
#include "tests/support/shm_groups.hpp"

namespace muster {
namespace {

TEST_CASE("shm between threads keeps the contract") {
  contract::Options options;
  options.rank_order = true;
  options.worlds = {1, 2, 3, 4, 8};
#ifdef MUSTER_SANITIZED
  // Every memory access costs ten times as much.
  options.quick = true;
  options.worlds = {2, 3, 5};
#endif
  contract::check_in_threads(
      [](int size, const ProcessGroupOptions& group) { return shm::make_thread_groups(size, group); },
      options);
}

}  // namespace
}  // namespace muster
