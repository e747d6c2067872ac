// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/env/worker_env.hpp"

#include "catch.hpp"
#include "tests/support/variables.hpp"

#include <stdexcept>

namespace {

using Environment = muster::test::Variables;
using muster::test::lookup_in;

Environment written(const muster::WorkerEnv& env) {
  Environment result;
  for (const auto& [name, value] : muster::to_environment(env)) result[name] = value;
  return result;
}

muster::WorkerEnv four_workers_rank_three() {
  muster::WorkerEnv env;
  env.rank = env.role_rank = 3;
  env.world_size = env.role_world_size = 4;
  env.local_rank = 1;
  env.local_world_size = 2;
  env.node_rank = 1;
  env.nodes = 2;
  env.store_host = "127.0.0.1";
  env.store_port = 4711;
  env.restart_count = 1;
  env.max_restarts = 3;
  env.run_id = "job";
  env.error_file = "/tmp/e.json";
  return env;
}

}  // namespace

TEST_CASE("What the agent writes is what the worker reads") {
  const Environment environment = written(four_workers_rank_three());
  const muster::WorkerEnv read = muster::worker_env_from(lookup_in(environment));
  const Environment again = written(read);
  for (const auto& [name, value] : environment) {
    INFO(name);
    CHECK(again.at(name) == value);
  }
  CHECK(read.agent_store);
}

TEST_CASE("The variables are torchrun's") {
  const Environment environment = written(four_workers_rank_three());
  CHECK(environment.at("RANK") == "3");
  CHECK(environment.at("GROUP_WORLD_SIZE") == "2");
  CHECK(environment.at("ROLE_NAME") == "default");
  CHECK(environment.at("TORCHELASTIC_USE_AGENT_STORE") == "True");
}

TEST_CASE("How PyTorch handles errors of NCCL is left to PyTorch, whose default dumps what hung") {
  CHECK_FALSE(written(four_workers_rank_three()).contains("TORCH_NCCL_ASYNC_ERROR_HANDLING"));
}

TEST_CASE("Without a launcher the world is one") {
  const Environment empty;
  const muster::WorkerEnv env = muster::worker_env_from(lookup_in(empty));
  CHECK(env.rank == 0);
  CHECK(env.world_size == 1);
}

TEST_CASE("A broken contract names the variable") {
  const auto message = [](const std::string& name, const std::optional<std::string>& value) {
    Environment environment = written(four_workers_rank_three());
    environment.erase(name);
    if (value) environment[name] = *value;
    try {
      muster::worker_env_from(lookup_in(environment));
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(message("RANK", std::nullopt), Contains("RANK is not set"));
  CHECK_THAT(message("RANK", "four"), Contains("RANK='four'"));
  CHECK_THAT(message("RANK", "4"), Contains("RANK=4 is outside 0..3"));
  CHECK_THAT(message("LOCAL_RANK", std::nullopt), Contains("LOCAL_RANK"));
  CHECK_THAT(message("MASTER_ADDR", std::nullopt), Contains("MASTER_ADDR"));
  CHECK_THAT(message("MASTER_PORT", "70000"), Contains("MASTER_PORT"));
}
