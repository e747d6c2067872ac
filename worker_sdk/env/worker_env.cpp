// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/env/worker_env.hpp"

#include "worker_sdk/env/variable_reader.hpp"

#include <stdexcept>

namespace muster {

std::vector<EnvironmentVariable> to_environment(const WorkerEnv& env) {
  const auto number = [](int value) { return std::to_string(value); };
  return {
      {"RANK", number(env.rank)},
      {"WORLD_SIZE", number(env.world_size)},
      {"LOCAL_RANK", number(env.local_rank)},
      {"LOCAL_WORLD_SIZE", number(env.local_world_size)},
      {"GROUP_RANK", number(env.node_rank)},
      {"GROUP_WORLD_SIZE", number(env.nodes)},
      {"ROLE_NAME", env.role},
      {"ROLE_RANK", number(env.role_rank)},
      {"ROLE_WORLD_SIZE", number(env.role_world_size)},
      {"MASTER_ADDR", env.store_host},
      {"MASTER_PORT", number(env.store_port)},
      {"TORCHELASTIC_RESTART_COUNT", number(env.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", number(env.max_restarts)},
      {"TORCHELASTIC_RUN_ID", env.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", env.agent_store ? "True" : "False"},
      {"TORCHELASTIC_ERROR_FILE", env.error_file},
      {"MUSTER_RUN_ID", env.run_id},
  };
}

WorkerEnv worker_env_from(const Lookup& lookup) {
  WorkerEnv env;
  const VariableReader read(lookup,
                            "start the program with 'muster run' or torchrun, or unset RANK and WORLD_SIZE");
  env.error_file = read.text("TORCHELASTIC_ERROR_FILE", "");
  if (!lookup("RANK") && !lookup("WORLD_SIZE")) return env;
  env.world_size = read.number("WORLD_SIZE", 1, kMostRanks);
  env.rank = read.number("RANK", 0, env.world_size - 1);
  env.local_world_size =
      read.number("LOCAL_WORLD_SIZE", 1, env.world_size, env.world_size == 1 ? 1 : std::optional<int>());
  env.local_rank = read.number("LOCAL_RANK", 0, env.local_world_size - 1);
  env.nodes = read.number("GROUP_WORLD_SIZE", 1, env.world_size, 1);
  env.node_rank = read.number("GROUP_RANK", 0, env.nodes - 1, 0);
  env.role = read.text("ROLE_NAME", "default");
  env.role_world_size = read.number("ROLE_WORLD_SIZE", 1, env.world_size, env.world_size);
  env.role_rank = read.number("ROLE_RANK", 0, env.role_world_size - 1, env.rank);
  env.store_host = read.text("MASTER_ADDR", "");
  env.store_port = read.number("MASTER_PORT", 0, 65535, 0);
  if (env.world_size > 1 && (env.store_host.empty() || env.store_port == 0))
    throw std::invalid_argument("MASTER_ADDR and MASTER_PORT are needed when WORLD_SIZE is " +
                                std::to_string(env.world_size));
  env.restart_count = read.number("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30, 0);
  env.max_restarts = read.number("TORCHELASTIC_MAX_RESTARTS", 0, 1 << 30, 0);
  env.run_id = read.text("TORCHELASTIC_RUN_ID", "none");
  env.agent_store = read.text("TORCHELASTIC_USE_AGENT_STORE", "False") == "True";
  return env;
}

}  // namespace muster
