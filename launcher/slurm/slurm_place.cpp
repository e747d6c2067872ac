// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/slurm_place.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/fnv1a.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace muster::launcher {
namespace {

constexpr int kTasksMax = 1 << 20;
constexpr int kLowestPort = 10'000;
constexpr int kPorts = 20'000;

/// The lowest of the numbers that Slurm gives, from the top, to steps that are no srun of the user: the shell
/// of salloc in its own step, the batch script, the container of a job.
constexpr std::uint64_t kFirstSpecialStep = 0xfffffff0;

[[noreturn]] void refuse(const std::string& source, const std::string& text, const std::string& wanted) {
  throw UsageError(source + "=" + text + " is not " + wanted +
                   ", as Slurm sets it; unset Slurm's variables or give --slurm off");
}

int count_in(const SlurmLookup& variable, const std::string& name, int fallback) {
  const auto text = variable(name);
  if (!text) return fallback;
  const auto value = parse_number<std::uint64_t>(*text);
  if (!value || *value > static_cast<std::uint64_t>(kTasksMax)) refuse(name, *text, "a number");
  return static_cast<int>(*value);
}

std::string first_of(const SlurmLookup& variable, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto text = variable(name); text && !text->empty()) return *text;
  return "";
}

/// Reads "2", "a100:2" or "gpu:a100:2"; returns 0 for what we do not understand, which is no error: the user
/// may know.
int gpus_in(const std::string& text) {
  const auto value = parse_number<std::uint64_t>(text.substr(text.rfind(':') + 1));
  return value && *value <= 4096 ? static_cast<int>(*value) : 0;
}

bool is_step(const SlurmLookup& variable) {
  const std::string step = first_of(variable, {"SLURM_STEP_ID", "SLURM_STEPID"});
  const auto number = parse_number<std::uint64_t>(step);
  return number && *number < kFirstSpecialStep;
}

void read_step(const SlurmLookup& variable, SlurmPlace& place) {
  place.kind = SlurmPlace::Kind::step;
  place.step_id = first_of(variable, {"SLURM_STEP_ID", "SLURM_STEPID"});
  place.node_list = first_of(variable, {"SLURM_STEP_NODELIST", "SLURM_NODELIST"});
  place.tasks_per_node = expand_task_counts(
      first_of(variable, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}), "SLURM_STEP_TASKS_PER_NODE");
  place.tasks_given = true;
  place.node_index = count_in(variable, "SLURM_NODEID", 0);
  place.task = count_in(variable, "SLURM_PROCID", 0);
  if (static_cast<std::size_t>(place.node_index) >= place.tasks_per_node.size())
    refuse("SLURM_NODEID", std::to_string(place.node_index),
           "a place among " + std::to_string(place.tasks_per_node.size()) + " nodes");
}

void read_allocation(const SlurmLookup& variable, SlurmPlace& place) {
  place.kind = SlurmPlace::Kind::allocation;
  place.node_list = first_of(variable, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const std::string source = "SLURM_TASKS_PER_NODE";
  const int nodes = count_in(variable, "SLURM_JOB_NUM_NODES", count_in(variable, "SLURM_NNODES", 1));
  const auto counts = variable(source);
  place.tasks_per_node = counts ? expand_task_counts(*counts, source)
                                : std::vector<int>(static_cast<std::size_t>(std::max(nodes, 1)), 1);
  place.tasks_given =
      variable("SLURM_NTASKS") || variable("SLURM_NPROCS") || variable("SLURM_NTASKS_PER_NODE");
}

}  // namespace

int SlurmPlace::tasks() const {
  return std::accumulate(tasks_per_node.begin(), tasks_per_node.end(), 0);
}

SlurmPlace read_slurm_place(const SlurmLookup& variable) {
  SlurmPlace place;
  place.job_id = first_of(variable, {"SLURM_JOB_ID", "SLURM_JOBID"});
  if (place.job_id.empty() || first_of(variable, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}).empty())
    return place;
  if (!parse_number<std::uint64_t>(place.job_id)) refuse("SLURM_JOB_ID", place.job_id, "a number");
  if (is_step(variable))
    read_step(variable, place);
  else
    read_allocation(variable, place);
  place.nodes = static_cast<int>(place.tasks_per_node.size());
  place.gpus_per_node = gpus_in(first_of(variable, {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}));
  if (place.gpus_per_node == 0) {
    const std::string listed = first_of(variable, {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"});
    if (!listed.empty())
      place.gpus_per_node = static_cast<int>(std::count(listed.begin(), listed.end(), ',')) + 1;
  }
  return place;
}

std::vector<int> expand_task_counts(const std::string& text, const std::string& source) {
  auto counts = parse_task_counts(text);
  if (!counts) refuse(source, text, "a list of task counts like 2(x3),1");
  return std::move(*counts);
}

int step_port(const std::string& job_id, const std::string& step_id) {
  const std::uint64_t hash = fnv1a(job_id + "." + step_id);
  return kLowestPort + static_cast<int>((hash ^ (hash >> 32U)) % static_cast<std::uint64_t>(kPorts));
}

std::string step_run_id(const SlurmPlace& place) {
  return "slurm-" + place.job_id + "-" + place.step_id;
}

void check_one_task_per_node(const SlurmPlace& step) {
  const int most = *std::max_element(step.tasks_per_node.begin(), step.tasks_per_node.end());
  if (most <= 1) return;
  throw UsageError(
      "Slurm step " + step.job_id + "." + step.step_id + " has " + std::to_string(most) +
      " tasks on a node, and each of them would start workers there; start one task per node: srun "
      "--ntasks-per-node=1 muster run --nproc-per-node " +
      std::to_string(most) + " ...");
}

}  // namespace muster::launcher
