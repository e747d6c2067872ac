// SPDX-License-Identifier: Apache-2.0
// The environment contract between an agent and a worker, in one place: the agent writes it, a worker reads
// it. Names and values follow torchrun (PyTorch 2.14), so that a program made for torchrun runs unchanged.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

/// Everything a worker learns from its environment. Plain data; any thread.
struct WorkerEnv {
  /// Global rank in [0, world_size). RANK. Default: 0.
  int rank = 0;
  /// Number of workers in the job. WORLD_SIZE. Default: 1.
  int world_size = 1;
  /// Rank among the workers of this node. LOCAL_RANK. Default: 0.
  int local_rank = 0;
  /// Number of workers on this node. LOCAL_WORLD_SIZE. Default: 1.
  int local_world_size = 1;
  /// Rank of this node. GROUP_RANK. Default: 0.
  int node_rank = 0;
  /// Number of nodes. GROUP_WORLD_SIZE. Default: 1.
  int nodes = 1;
  /// The role of the worker, its rank and number of workers in that role. ROLE_NAME, ROLE_RANK,
  /// ROLE_WORLD_SIZE. There is one role per job, so the last two equal rank and world_size.
  std::string role = "default";
  int role_rank = 0;
  int role_world_size = 1;
  /// The address and port of the store of this round. MASTER_ADDR, MASTER_PORT. Empty and 0 when there is
  /// none.
  std::string store_host;
  int store_port = 0;
  /// The number of restarts of the job so far, and the number that it allows. A round that uses up none has
  /// the count of the round before it. TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS.
  int restart_count = 0;
  int max_restarts = 0;
  /// The job's name. TORCHELASTIC_RUN_ID, and MUSTER_RUN_ID, by which a worker knows `muster run`. Default:
  /// "none", as under torchrun.
  std::string run_id = "none";
  /// The file into which an uncaught error is written as JSON. TORCHELASTIC_ERROR_FILE. Empty: none.
  std::string error_file;
  /// Whether the store is hosted by the agent. TORCHELASTIC_USE_AGENT_STORE, exactly "True" or "False".
  bool agent_store = true;
};

using EnvironmentVariable = std::pair<std::string, std::string>;

/// The variables of `env` as the agent sets them, in a fixed order: torchrun's but for
/// TORCH_NCCL_ASYNC_ERROR_HANDLING. With torchrun's "1", PyTorch's watchdog aborts NCCL's communicators
/// before it has dumped what hung; without the variable it takes its own default, 3, and dumps. A value that
/// the user has set reaches the worker as every inherited variable does.
std::vector<EnvironmentVariable> to_environment(const WorkerEnv& env);

/// Reads the contract back. With neither RANK nor WORLD_SIZE set: a world of one (a program started bare).
/// Throws std::invalid_argument that names the variable when one is missing, not a number or out of range.
WorkerEnv worker_env_from(const std::function<std::optional<std::string>(const std::string&)>& lookup);

}  // namespace muster
