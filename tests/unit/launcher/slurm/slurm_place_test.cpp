// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/slurm_place.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"
#include "tests/support/variables.hpp"

#include <set>

using namespace muster::launcher;

namespace {

using muster::test::Variables;

SlurmPlace place_of(const Variables& variables) {
  return read_slurm_place(muster::test::lookup_in(variables));
}

std::string error_of(const Variables& variables) {
  try {
    place_of(variables);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

/// As Slurm 22.05 sets them: `salloc -N3`.
const Variables kAllocation = {{"SLURM_JOB_ID", "7"},
                               {"SLURM_JOB_NODELIST", "n[0-2]"},
                               {"SLURM_JOB_NUM_NODES", "3"},
                               {"SLURM_NNODES", "3"},
                               {"SLURM_TASKS_PER_NODE", "4(x2),2"}};

/// `srun -N2 -n2 --overlap` in it, on its second node.
const Variables kStep = {{"SLURM_JOB_ID", "7"},         {"SLURM_JOB_NODELIST", "n[0-2]"},
                         {"SLURM_STEP_ID", "3"},        {"SLURM_STEP_NODELIST", "n[1-2]"},
                         {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                         {"SLURM_NODEID", "1"},         {"SLURM_PROCID", "1"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

}  // namespace

TEST_CASE("without Slurm's variables there is no Slurm") {
  CHECK(place_of({}).kind == SlurmPlace::Kind::none);
  CHECK(place_of({{"SLURM_CONF", "/etc/slurm.conf"}}).kind == SlurmPlace::Kind::none);
  CHECK(place_of({{"SLURM_JOB_ID", ""}, {"SLURM_JOB_NODELIST", "n0"}}).kind == SlurmPlace::Kind::none);
}

TEST_CASE("a shell of salloc speaks for the allocation") {
  const SlurmPlace place = place_of(kAllocation);
  CHECK(place.kind == SlurmPlace::Kind::allocation);
  CHECK(place.job_id == "7");
  CHECK(place.node_list == "n[0-2]");
  CHECK(place.nodes == 3);
  CHECK(place.tasks_per_node == std::vector<int>{4, 4, 2});
  CHECK(place.tasks() == 10);
  CHECK_FALSE(place.tasks_given);
  CHECK(place.gpus_per_node == 0);
}

TEST_CASE("a batch script is no step, though it has a rank") {
  const SlurmPlace place = place_of(with(kAllocation, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "10"}}));
  CHECK(place.kind == SlurmPlace::Kind::allocation);
  CHECK(place.tasks_given);
}

TEST_CASE("the step of salloc's own shell is the allocation") {
  for (const char* step : {"4294967290", "4294967291", "4294967292"}) {
    const SlurmPlace place =
        place_of(with(kAllocation, {{"SLURM_STEP_ID", step}, {"SLURM_STEP_NODELIST", "n0"}}));
    CHECK(place.kind == SlurmPlace::Kind::allocation);
    CHECK(place.nodes == 3);
  }
}

TEST_CASE("a task of a step knows its nodes and its place") {
  const SlurmPlace place = place_of(kStep);
  CHECK(place.kind == SlurmPlace::Kind::step);
  CHECK(place.step_id == "3");
  CHECK(place.node_list == "n[1-2]");
  CHECK(place.nodes == 2);
  CHECK(place.node_index == 1);
  CHECK(step_run_id(place) == "slurm-7-3");
  CHECK_NOTHROW(check_one_task_per_node(place));
}

TEST_CASE("several tasks on a node are an error that says what to type") {
  const SlurmPlace place = place_of(with(kStep, {{"SLURM_STEP_TASKS_PER_NODE", "1,4"}}));
  CHECK_THROWS_WITH(
      check_one_task_per_node(place),
      "Slurm step 7.3 has 4 tasks on a node, and each of them would start workers there; start one task per "
      "node: srun --ntasks-per-node=1 muster run --nproc-per-node 4 ...");
}

TEST_CASE("GPUs are counted as Slurm tells them") {
  const auto gpus = [](const Variables& more) { return place_of(with(kAllocation, more)).gpus_per_node; };
  CHECK(gpus({{"SLURM_GPUS_ON_NODE", "8"}}) == 8);
  CHECK(gpus({{"SLURM_GPUS_PER_NODE", "a100:4"}}) == 4);
  CHECK(gpus({{"SLURM_JOB_GPUS", "0,2,3"}}) == 3);
  CHECK(gpus({{"SLURM_GPUS_PER_NODE", "many"}}) == 0);
}

TEST_CASE("values that Slurm never sets are named") {
  CHECK(error_of(with(kAllocation, {{"SLURM_TASKS_PER_NODE", "4(x"}})) ==
        "SLURM_TASKS_PER_NODE=4(x is not a list of task counts like 2(x3),1, as Slurm sets it; unset Slurm's "
        "variables or "
        "give --slurm off");
  for (const char* counts : {"", "x", "1,", ",1", "1(x0)", "1(x)", "(x2)", "1(x2", "1(y2)", "-1", "99999999",
                             "1(x99999999)", "1(x2))", "1 2"})
    CHECK_THROWS_AS(expand_task_counts(counts, "V"), UsageError);
  CHECK(error_of(with(kAllocation, {{"SLURM_JOB_ID", "seven"}}))
            .starts_with("SLURM_JOB_ID=seven is not a number"));
  CHECK(error_of(with(kStep, {{"SLURM_NODEID", "2"}}))
            .starts_with("SLURM_NODEID=2 is not a place among 2 nodes"));
}

TEST_CASE("steps meet at ports of their own") {
  std::set<int> ports;
  for (int job = 1; job <= 100; ++job)
    for (int step = 0; step < 10; ++step) {
      const int port = step_port(std::to_string(job), std::to_string(step));
      CHECK((port >= 10'000 && port < 30'000));
      ports.insert(port);
    }
  CHECK(ports.size() > 950);  // 1,000 random ones of 20,000 would be about 975 different
  CHECK(step_port("7", "3") == step_port("7", "3"));
}
