// SPDX-License-Identifier: Apache-2.0
// One rank of mpi_test.py, started by mpirun. Argument: the test case. A line "result: ..." says how it went.
#include "catch.hpp"
#include "tests/integration/backends/world.hpp"
#include "worker_sdk/comm/plugin/border.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>

namespace muster {
namespace {

using Broadcast = int32_t (*)(void*, size_t, int32_t, muster_plugin_error*);
using RankAndSize = int32_t (*)(int32_t*, int32_t*, muster_plugin_error*);

std::string contract_of(ProcessGroup& group) {
  contract::Options options;
  options.rank_order = true;
  options.quick = group.size() > 3;
  const std::string wrong = contract::run_cases(group, options);
  return wrong.empty() ? "right" : wrong;
}

/// Rank 0 makes no call, and stays until the others have seen that.
std::string late(ProcessGroup& group, StoreClient& store) {
  const auto key = [](int rank) { return "saw/" + std::to_string(rank); };
  if (group.rank() == 0) {
    for (int rank = 1; rank < group.size(); ++rank) store.get(key(rank));
    return "right";
  }
  try {
    group.barrier();
  } catch (const Error&) {
    store.set(key(group.rank()), "1");
    throw;
  }
  return "no error";
}

std::string mismatch(ProcessGroup& group) {
  std::vector<float> data(20);
  group.all_reduce(data.data(), group.rank() == 0 ? 10 : 20, DataType::f32, ReduceOp::sum);
  return "no error";
}

std::string run(const std::string& what) {
  const auto broadcast = reinterpret_cast<Broadcast>(plugin::plugin_function("mpi", "muster_mpi_broadcast"));
  const auto rank_and_size =
      reinterpret_cast<RankAndSize>(plugin::plugin_function("mpi", "muster_mpi_rank_and_size"));
  std::optional<test::StoreProcess> server;
  const char* const given = getenv("OMPI_COMM_WORLD_RANK");
  // Forked before MPI is there.
  if (given != nullptr && std::string(given) == "0") server.emplace();
  int port = server ? server->port() : 0;
  plugin::call_or_throw(broadcast, &port, sizeof(port), 0);
  int32_t rank = -1;
  int32_t size = -1;
  plugin::call_or_throw(rank_and_size, &rank, &size);
  const auto store = connect_store("127.0.0.1", port);
  ProcessGroupOptions options;
  options.timeout = std::chrono::milliseconds(what == "late" ? 6'000 : 50'000);
  options.join_timeout = std::chrono::seconds(50);
  const auto group = test::make_world(*store, test::world_of("mpi", rank, size, options));
  const std::string result = what == "contract"   ? contract_of(*group)
                             : what == "mismatch" ? mismatch(*group)
                                                  : late(*group, *store);
  return result;
}

/// Prints how it went, for the test that reads it.
void play(const std::string& what) {
  std::string result;
  try {
    result = run(what);
  } catch (const Error& error) {
    result = "error " + std::to_string(static_cast<int>(error.code())) + ": " + error.what();
  }
  std::printf("result: %s\n", result.c_str());
}

TEST_CASE("contract", "[.]") {
  play("contract");
}

TEST_CASE("mismatch", "[.]") {
  play("mismatch");
}

TEST_CASE("late", "[.]") {
  play("late");
}

}  // namespace
}  // namespace muster
