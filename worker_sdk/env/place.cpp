// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/env/place.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/allowance.hpp"
#include "rendezvous/base/host_port.hpp"
#include "rendezvous/base/text.hpp"
#include "worker_sdk/env/worker_env.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>

namespace muster {
namespace {

/// The number of tasks of a node; -1 if Slurm's text does not tell it.
int tasks_of_node(const std::string& text, int node) {
  const auto counts = parse_task_counts(text).value_or(std::vector<int>());
  return static_cast<std::size_t>(node) < counts.size() ? counts[static_cast<std::size_t>(node)] : -1;
}

Place place_by_options(const Lookup& lookup, int rank, int size) {
  if (rank < 0 || size < 0)
    throw Error(ErrorCode::invalid_argument, std::string("the option '") + (rank < 0 ? "rank" : "size") +
                                                 "' is not given, though '" + (rank < 0 ? "size" : "rank") +
                                                 "' is; give both or none");
  if (size < 1 || size > kMostRanks)
    throw Error(ErrorCode::invalid_argument,
                "the world size " + std::to_string(size) + " is outside 1.." + std::to_string(kMostRanks));
  if (rank >= size)
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(rank) + " is outside 0.." + std::to_string(size - 1));
  Place place;
  place.launcher = Launcher::explicit_ranks;
  place.rank = rank;
  place.size = size;
  place.run_id = lookup("MUSTER_RUN_ID").value_or("none");
  return place;
}

Place place_by_muster(const Lookup& lookup) {
  const VariableReader read(lookup, "set MUSTER_RANK and MUSTER_WORLD_SIZE both, or neither");
  Place place;
  place.launcher = Launcher::explicit_ranks;
  place.size = read.number("MUSTER_WORLD_SIZE", 1, kMostRanks);
  place.rank = read.number("MUSTER_RANK", 0, place.size - 1);
  place.local_size = read.number("MUSTER_LOCAL_WORLD_SIZE", 1, place.size, -1);
  const int most_local = place.local_size < 0 ? place.size : place.local_size;
  place.local_rank = read.number("MUSTER_LOCAL_RANK", 0, most_local - 1, -1);
  place.nodes = read.number("MUSTER_NODES", 1, place.size, -1);
  place.node_rank = read.number("MUSTER_NODE_RANK", 0, (place.nodes < 0 ? place.size : place.nodes) - 1, -1);
  place.restart_count = read.number("MUSTER_RESTART_COUNT", 0, 1 << 30, 0);
  place.run_id = read.text("MUSTER_RUN_ID", "none");
  return place;
}

/// Reads torchrun's variables. torchrun sets all of them; a user who sets them by hand, as PyTorch needs,
/// gives only RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
Place place_by_torchrun(const Lookup& lookup) {
  const bool by_hand = !lookup("TORCHELASTIC_RUN_ID") && !lookup("LOCAL_RANK") && !lookup("LOCAL_WORLD_SIZE");
  const bool has_store = lookup("MUSTER_STORE").has_value();
  const Lookup completed = [&](const std::string& name) -> std::optional<std::string> {
    auto value = lookup(name);
    if (value) return value;
    if (by_hand && name == "LOCAL_RANK") return lookup("RANK");
    if (by_hand && name == "LOCAL_WORLD_SIZE") return lookup("WORLD_SIZE");
    // MUSTER_STORE takes precedence over MASTER_*, so these may be missing.
    if (has_store && name == "MASTER_ADDR") return "unused";
    if (has_store && name == "MASTER_PORT") return "1";
    return std::nullopt;
  };
  const WorkerEnv env = worker_env_from(completed);
  Place place;
  place.launcher = lookup("MUSTER_RUN_ID") == env.run_id ? Launcher::muster : Launcher::torchrun;
  place.rank = env.rank;
  place.size = env.world_size;
  if (!by_hand) {
    place.local_rank = env.local_rank;
    place.local_size = env.local_world_size;
  }
  if (lookup("GROUP_RANK") && lookup("GROUP_WORLD_SIZE")) {
    place.node_rank = env.node_rank;
    place.nodes = env.nodes;
  }
  place.restart_count = env.restart_count;
  place.run_id = env.run_id;
  place.store_host = env.store_host;
  place.store_port = env.store_port;
  place.serves_store = !env.agent_store;
  return place;
}

/// Reads Open MPI's variables. OMPI_COMM_WORLD_NODE_RANK is not used: it is not the node's number but the
/// process's number on its node.
Place place_by_mpirun(const Lookup& lookup) {
  const VariableReader read(lookup, "start the program with mpirun, or unset the OMPI_COMM_WORLD_ variables");
  Place place;
  place.launcher = Launcher::mpirun;
  place.size = read.number("OMPI_COMM_WORLD_SIZE", 1, kMostRanks);
  place.rank = read.number("OMPI_COMM_WORLD_RANK", 0, place.size - 1);
  place.local_size = read.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, place.size);
  place.local_rank = read.number("OMPI_COMM_WORLD_LOCAL_RANK", 0, place.local_size - 1);
  const std::string job = read.text("PMIX_NAMESPACE", read.text("OMPI_MCA_ess_base_jobid", ""));
  if (!job.empty()) {
    place.run_id = "mpi-" + job;
    place.step = place.run_id;
  }
  return place;
}

bool in_slurm_step(const Lookup& lookup) {
  if (!lookup("SLURM_STEP_ID")) return false;
  const auto tasks = lookup("SLURM_STEP_NUM_TASKS");
  // A bare batch script has SLURM_PROCID and SLURM_NTASKS as well, but it is a single process.
  return tasks ? *tasks != "1" : lookup("SLURM_NTASKS").value_or("1") != "1";
}

/// The text of Slurm's job id. Jobs of a federation use all 32 bits.
std::string slurm_job(const VariableReader& read) {
  const std::string name = read.has("SLURM_JOBID") ? "SLURM_JOBID" : "SLURM_JOB_ID";
  const std::string text = read.text(name, "");
  if (const auto job = parse_number<std::uint32_t>(text)) return std::to_string(*job);
  return std::to_string(read.number(name, 0, std::numeric_limits<int>::max()));  // reports an invalid number
}

Place place_by_slurm(const Lookup& lookup) {
  const VariableReader read(lookup, "start the program with srun, or unset SLURM_STEP_ID");
  Place place;
  place.launcher = Launcher::slurm;
  place.size =
      read.number(read.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1, kMostRanks);
  place.rank = read.number("SLURM_PROCID", 0, place.size - 1);
  place.local_rank = read.number("SLURM_LOCALID", 0, place.size - 1);
  place.nodes =
      read.number(read.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES", 1, kMostRanks);
  place.node_rank = read.number("SLURM_NODEID", 0, place.nodes - 1);
  place.local_size = place.nodes == 1
                         ? place.size
                         : tasks_of_node(read.text("SLURM_STEP_TASKS_PER_NODE", ""), place.node_rank);
  place.step = "slurm-" + slurm_job(read) + "." + read.text("SLURM_STEP_ID", "");
  place.run_id = place.step;
  place.restart_count = read.number("SLURM_RESTART_COUNT", 0, 1 << 30, 0);
  return place;
}

Place place_by_launcher(const Lookup& lookup, int rank, int size) {
  if (rank != -1 || size != -1) return place_by_options(lookup, rank, size);
  if (lookup("MUSTER_RANK") || lookup("MUSTER_WORLD_SIZE")) return place_by_muster(lookup);
  if (lookup("RANK") || lookup("WORLD_SIZE")) return place_by_torchrun(lookup);
  if (lookup("OMPI_COMM_WORLD_RANK") || lookup("OMPI_COMM_WORLD_SIZE")) return place_by_mpirun(lookup);
  if (in_slurm_step(lookup)) return place_by_slurm(lookup);
  return {};
}

/// The parts of a claim: the mask, and the quota with its control group.
std::pair<std::string, std::string> parts_of(const std::string& claim) {
  const std::size_t blank = claim.find(' ');
  return {claim.substr(0, blank), blank == std::string::npos ? "" : claim.substr(blank + 1)};
}

bool overlap(const std::string& a, const std::string& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] == '1' && b[i] == '1') return true;
  return false;
}

}  // namespace

std::string name_of(Launcher launcher) {
  // The names are in the order of the enumeration.
  static constexpr std::array kNames{"none", "muster run", "torchrun", "mpirun", "srun", "given ranks"};
  return kNames.at(static_cast<std::size_t>(launcher));
}

HostPort parse_endpoint(const std::string& what, const std::string& text) {
  const auto parts = split_host_port(text);
  if (!parts || !parts->port)
    throw Error(ErrorCode::invalid_argument,
                what + "='" + text + "' is not HOST:PORT, with brackets round an IPv6 address");
  try {
    return {parts->host, parse_variable("the port", *parts->port, 0, 65535)};
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorCode::invalid_argument, what + "='" + text + "': " + error.what());
  }
}

Place find_place(const Lookup& lookup, int rank, int size) {
  Place place;
  try {
    place = place_by_launcher(lookup, rank, size);
  } catch (const std::invalid_argument& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
  if (const auto store = lookup("MUSTER_STORE")) {
    const HostPort endpoint = parse_endpoint("MUSTER_STORE", *store);
    place.store_host = endpoint.host;
    place.store_port = endpoint.port;
    if (place.store_port == 0)
      throw Error(ErrorCode::invalid_argument, "MUSTER_STORE='" + *store + "' has no port to connect to");
    place.serves_store = false;
  } else if (place.store_host.empty() && place.size > 1 && lookup("MASTER_ADDR") && lookup("MASTER_PORT")) {
    // This is PyTorch's env:// with ranks from another launcher (mpirun -x MASTER_ADDR -x MASTER_PORT).
    const VariableReader read(lookup, "");
    place.store_host = read.text("MASTER_ADDR", "");
    // Under muster run and torchrun the agent already serves the store, perhaps since earlier rounds.
    place.serves_store = read.text("TORCHELASTIC_USE_AGENT_STORE", "False") != "True";
    try {
      place.store_port = read.number("MASTER_PORT", 1, 65535);
      if (!place.serves_store)
        place.restart_count = read.number("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30, place.restart_count);
    } catch (const std::invalid_argument& error) {
      throw Error(ErrorCode::invalid_argument, error.what());
    }
    if (!place.serves_store && place.run_id == "none")
      place.run_id = read.text("TORCHELASTIC_RUN_ID", "none");
  }
  return place;
}

std::string processor_claim() {
  const Allowance allowance = read_allowance();
  std::string claim = processor_mask();
  if (allowance.quota_decides())
    claim += " " + std::to_string(allowance.processors) + " " + allowance.quota_group;
  return claim;
}

int processor_share(std::span<const std::string> claims, std::size_t own) {
  const auto [mask, quota] = parts_of(claims[own]);
  const auto is_sharer = [&mask = mask](const std::string& claim) {
    return overlap(parts_of(claim).first, mask);
  };
  const auto has_quota = [&quota = quota](const std::string& claim) {
    return parts_of(claim).second == quota;
  };
  const auto divided = [](std::ptrdiff_t whole, std::ptrdiff_t by) {
    return whole / std::max<std::ptrdiff_t>(1, by);
  };
  auto share = divided(std::count(mask.begin(), mask.end(), '1'),
                       std::count_if(claims.begin(), claims.end(), is_sharer));
  if (const auto given = leading_number(quota))
    share = std::min<std::ptrdiff_t>(share,
                                     divided(*given, std::count_if(claims.begin(), claims.end(), has_quota)));
  return static_cast<int>(std::max<std::ptrdiff_t>(1, share));
}

}  // namespace muster
