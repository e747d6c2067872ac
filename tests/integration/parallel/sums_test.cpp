// SPDX-License-Identifier: Apache-2.0
// How real processes compare their models through a real store. What they then compute together is that of
// threads over shared memory (tests/unit/worker_sdk/parallel).
#include "catch.hpp"
#include "tests/integration/comm/rank_results.hpp"
#include "tests/support/shm_groups.hpp"
#include "worker_sdk/parallel/reducer.hpp"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::run_processes;
using test::StoreProcess;

const std::vector<ParameterSpec> kModel = {{"stem", {16, 9}}, {"body", {64, 65}}, {"head", {10}}};

ProcessGroupOptions with_timeout(milliseconds timeout) {
  ProcessGroupOptions options;
  options.timeout = timeout;
  return options;
}

ReducerOptions over_store(StoreClient& store) {
  ReducerOptions options;
  options.store = &store;
  options.first_bucket_bytes = 64;
  return options;
}

TEST_CASE("Models are compared over the store before anything else happens") {
  StoreProcess store;
  auto results = run_processes(3, store.port(), [](int rank, StoreClient& keys) -> std::string {
    const auto group = make_shm_process_group(&keys, rank, 3, with_timeout(seconds(60)));
    Reducer first(kModel, group.get(), over_store(keys));
    Reducer second(kModel, group.get(), over_store(keys));
    std::vector<ParameterSpec> model = kModel;
    if (rank == 2) model[1].shape = {65, 64};
    Reducer third(model, group.get(), over_store(keys));
    return "not refused";
  });
  test::check_failed(results, ErrorCode::mismatch,
                     {"parameter 1: rank 0 has body [64, 65], rank 2 has body [65, 64]"});
}

TEST_CASE("A rank that does not come to compare models is named") {
  StoreProcess store;
  const auto results = run_processes(3, store.port(), [](int rank, StoreClient& keys) -> std::string {
    auto options = with_timeout(seconds(rank == 0 ? 3 : 60));
    options.join_timeout = seconds(60);
    const auto group = make_shm_process_group(&keys, rank, 3, options);
    if (rank == 1) {
      // Stays until the others know, so that it is late and not dead.
      keys.wait({"seen"}, seconds(60));
      return "late";
    }
    try {
      Reducer reducer(kModel, group.get(), over_store(keys));
    } catch (const Error& error) {
      keys.set("seen", "1");
      throw;
    }
    return "not refused";
  });
  CHECK(results[1].text == "late");
  test::check_failed({results[0], results[2]}, ErrorCode::deadline, {"rank 1 did not say"});
}

}  // namespace
}  // namespace muster
