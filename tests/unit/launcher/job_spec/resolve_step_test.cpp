// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/slurm_place.hpp"
#include "tests/unit/launcher/job_spec/resolve.hpp"

namespace resolve_step_test {

using namespace muster::launcher;

namespace {

using Variables = std::map<std::string, std::string>;

/// `srun -N3 --ntasks-per-node=1` on its second node.
const Variables kStep = {{"SLURM_JOB_ID", "7"},
                         {"SLURM_JOB_NODELIST", "n[00-05]"},
                         {"SLURM_STEP_ID", "3"},
                         {"SLURM_STEP_NODELIST", "n[02-04]"},
                         {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_PROCID", "1"}};

FakeSystem in_step(const Variables& more = {}) {
  FakeSystem system;
  for (const Variables& some : {kStep, more})
    for (const auto& [name, value] : some) system.variables[name] = value;
  return system;
}

JobSpec resolved(const Arguments& arguments, const Variables& more = {}) {
  return resolve(arguments, in_step(more)).spec;
}

}  // namespace

TEST_CASE("the tasks of a step are peers that meet on its first node") {
  const JobSpec spec = resolved({});
  CHECK(spec.form == StartForm::peer);
  CHECK(spec.nodes.empty());
  CHECK(spec.agent.run_id == "slurm-7-3");
  CHECK(spec.agent.limits.min_nodes == 3);
  CHECK(spec.agent.limits.max_nodes == 3);
  CHECK(spec.agent.workers == 1);
  CHECK(spec.agent.node.coordinator_host == "n02");
  CHECK(spec.agent.node.coordinator_port == step_port("7", "3"));
  CHECK_FALSE(spec.agent.node.coordinator);
  CHECK(spec.agent.node.node_rank == 1);
  const JobSpec first = resolved({}, {{"SLURM_NODEID", "0"}, {"SLURM_PROCID", "0"}});
  CHECK(first.agent.node.coordinator);
  CHECK_FALSE(std::get<muster::agent::PeerNode>(first.agent.node.form).hosting_inferred);
}

TEST_CASE("workers of a step's node are its GPUs, or what the flag says") {
  CHECK(resolved({}, {{"SLURM_GPUS_ON_NODE", "4"}}).agent.workers == 4);
  CHECK(resolved({"--nproc-per-node=2"}, {{"SLURM_GPUS_ON_NODE", "4"}}).agent.workers == 2);
}

TEST_CASE("torchrun's flags win over Slurm") {
  CHECK(resolved({"--rdzv-id=mine"}).agent.run_id == "mine");
  CHECK(resolved({"--nnodes=1:3"}).agent.limits.min_nodes == 1);
  CHECK(resolved({"--nnodes=1:3"}).agent.node.node_rank == -1);
  CHECK(resolved({"--standalone"}).form == StartForm::local);
  CHECK(resolved({"--nnodes=1"}).form == StartForm::local);
  CHECK(resolved({"--slurm=off"}).form == StartForm::local);
  CHECK(
      resolved({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=far:7"}).agent.node.coordinator_host ==
      "far");
}

TEST_CASE("what cannot be meant in a step is refused") {
  CHECK(resolve_error({"--nnodes=2"}, in_step()) ==
        "--nnodes=2, but step 7.3 has 3 nodes (SLURM_STEP_NODELIST=n[02-04]); let both say the same, or "
        "leave --nnodes "
        "out");
  CHECK(resolve_error({}, in_step({{"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}}))
            .starts_with("Slurm step 7.3 has 2 tasks on a node"));
  CHECK(contains(resolve_error({"-n", "4"}, in_step()), "give --nproc-per-node"));
}

TEST_CASE("a step of one task is a job of its own") {
  CHECK(resolved({},
                 {{"SLURM_STEP_TASKS_PER_NODE", "1"}, {"SLURM_STEP_NODELIST", "n02"}, {"SLURM_NODEID", "0"}})
            .form == StartForm::local);
}

}  // namespace resolve_step_test
