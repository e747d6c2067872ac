// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/env/place.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/variables.hpp"

#include <set>
#include <string>

namespace muster {
namespace {

using Environment = test::Variables;

Place place_in(const Environment& environment, int rank = -1, int size = -1) {
  return find_place(test::lookup_in(environment), rank, size);
}

std::string complaint(const Environment& environment, int rank = -1, int size = -1) {
  return test::error_of([&] { place_in(environment, rank, size); }, ErrorCode::invalid_argument);
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

const Environment kOwn{{"MUSTER_RANK", "1"}, {"MUSTER_WORLD_SIZE", "4"}, {"MUSTER_STORE", "[::1]:2000"}};
const Environment kTorchrun{{"RANK", "5"},
                            {"WORLD_SIZE", "8"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"GROUP_RANK", "1"},
                            {"GROUP_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "n01"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "job"},
                            {"TORCHELASTIC_RESTART_COUNT", "2"},
                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Environment kMpi{{"OMPI_COMM_WORLD_RANK", "2"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                       {"OMPI_COMM_WORLD_NODE_RANK", "0"},  {"PMIX_NAMESPACE", "4711"}};
const Environment kSlurm{
    {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "77"},        {"SLURM_PROCID", "3"},
    {"SLURM_NTASKS", "5"},  {"SLURM_STEP_NUM_TASKS", "5"}, {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "1"},  {"SLURM_NNODES", "2"},         {"SLURM_STEP_TASKS_PER_NODE", "3,2"}};

TEST_CASE("without a launcher the world is one") {
  const Place place = place_in({});
  CHECK(place.launcher == Launcher::bare);
  CHECK(place.size == 1);
  CHECK(place.store_host.empty());
}

TEST_CASE("our own variables say rank, size and store") {
  const Place place = place_in(kOwn);
  CHECK(place.launcher == Launcher::explicit_ranks);
  CHECK(place.rank == 1);
  CHECK(place.size == 4);
  CHECK(place.local_rank == -1);
  CHECK(place.store_host == "::1");
  CHECK(place.store_port == 2000);
  CHECK_FALSE(place.serves_store);
}

TEST_CASE("torchrun's variables, and muster run's by its mark") {
  const Place place = place_in(kTorchrun);
  CHECK(place.launcher == Launcher::torchrun);
  CHECK(place.rank == 5);
  CHECK(place.size == 8);
  CHECK(place.local_rank == 1);
  CHECK(place.local_size == 4);
  CHECK(place.node_rank == 1);
  CHECK(place.nodes == 2);
  CHECK(place.restart_count == 2);
  CHECK(place.run_id == "job");
  CHECK(place.store_host == "n01");
  CHECK_FALSE(place.serves_store);
  CHECK(place_in(with(kTorchrun, "MUSTER_RUN_ID", "job")).launcher == Launcher::muster);
  CHECK(place_in(with(kTorchrun, "MUSTER_RUN_ID", "the job around it")).launcher == Launcher::torchrun);
}

TEST_CASE("PyTorch's four variables by hand are enough, and then rank 0 serves the store") {
  const Place place =
      place_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "2000"}});
  CHECK(place.rank == 1);
  CHECK(place.local_rank == -1);
  CHECK(place.nodes == -1);
  CHECK(place.serves_store);
}

TEST_CASE("Open MPI's variables; its node rank is another thing") {
  const Place place = place_in(kMpi);
  CHECK(place.launcher == Launcher::mpirun);
  CHECK(place.rank == 2);
  CHECK(place.size == 4);
  CHECK(place.local_rank == 0);
  CHECK(place.local_size == 2);
  CHECK(place.node_rank == -1);
  CHECK(place.step == "mpi-4711");
  const Place served = place_in(with(with(kMpi, "MASTER_ADDR", "n01"), "MASTER_PORT", "2000"));
  CHECK(served.store_host == "n01");
  CHECK(served.serves_store);
}

TEST_CASE("Slurm counts only inside a step of several tasks") {
  const Place place = place_in(kSlurm);
  CHECK(place.launcher == Launcher::slurm);
  CHECK(place.rank == 3);
  CHECK(place.size == 5);
  CHECK(place.local_rank == 0);
  CHECK(place.local_size == 2);
  CHECK(place.node_rank == 1);
  CHECK(place.nodes == 2);
  CHECK(place.step == "slurm-77.0");
  CHECK(place_in(with(kSlurm, "SLURM_JOB_ID", "2147483001")).step == "slurm-2147483001.0");
  CHECK(place_in(with(kSlurm, "SLURM_JOB_ID", "4227858455")).step == "slurm-4227858455.0");
  CHECK(place_in(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "1,2(x3),4")).local_size == 2);
  CHECK(place_in(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "nonsense")).local_size == -1);
  // A batch script is one process, though it has a rank and a number of tasks.
  CHECK(place_in(without(without(kSlurm, "SLURM_STEP_ID"), "SLURM_STEP_NUM_TASKS")).launcher ==
        Launcher::bare);
  CHECK(place_in(with(kSlurm, "SLURM_STEP_NUM_TASKS", "1")).launcher == Launcher::bare);
}

TEST_CASE("options go before our variables, those before torchrun's, Open MPI's and Slurm's") {
  Environment all = kSlurm;
  CHECK(place_in(all).launcher == Launcher::slurm);
  all.insert(kMpi.begin(), kMpi.end());
  CHECK(place_in(all).launcher == Launcher::mpirun);
  all.insert(kTorchrun.begin(), kTorchrun.end());
  CHECK(place_in(all).launcher == Launcher::torchrun);
  all.insert(kOwn.begin(), kOwn.end());
  CHECK(place_in(all).launcher == Launcher::explicit_ranks);
  const Place place = place_in(all, 0, 3);
  CHECK(place.rank == 0);
  CHECK(place.size == 3);
}

TEST_CASE("given ranks use the store that the launcher's agent serves") {
  for (const Environment& set : {kTorchrun, with(kTorchrun, "MUSTER_RUN_ID", "job")}) {
    const Place place = place_in(set, 1, 3);
    CHECK(place.rank == 1);
    CHECK(place.store_host == "n01");
    CHECK(place.store_port == 29500);
    CHECK_FALSE(place.serves_store);
    CHECK(place.run_id == "job");
    CHECK(place.restart_count == 2);
  }
  CHECK(place_in(without(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE"), 1, 3).serves_store);
  CHECK(place_in(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False"), 1, 3).serves_store);
}

TEST_CASE("MUSTER_STORE goes before every other store") {
  const Place place = place_in(with(kTorchrun, "MUSTER_STORE", "n09:1234"));
  CHECK(place.store_host == "n09");
  CHECK(place.store_port == 1234);
  CHECK(place_in(with(without(kTorchrun, "MASTER_ADDR"), "MUSTER_STORE", "n09:1234")).store_host == "n09");
}

TEST_CASE("an incomplete set is an error that names what is missing") {
  const std::set<std::string> needed{"MUSTER_RANK",
                                     "MUSTER_WORLD_SIZE",
                                     "RANK",
                                     "WORLD_SIZE",
                                     "LOCAL_RANK",
                                     "LOCAL_WORLD_SIZE",
                                     "MASTER_ADDR",
                                     "MASTER_PORT",
                                     "OMPI_COMM_WORLD_RANK",
                                     "OMPI_COMM_WORLD_SIZE",
                                     "OMPI_COMM_WORLD_LOCAL_RANK",
                                     "OMPI_COMM_WORLD_LOCAL_SIZE",
                                     "SLURM_PROCID",
                                     "SLURM_LOCALID",
                                     "SLURM_NODEID",
                                     "SLURM_NNODES",
                                     "SLURM_JOB_ID",
                                     "GROUP_WORLD_SIZE"};
  for (const Environment& set : {kOwn, kTorchrun, kMpi, kSlurm}) {
    for (const auto& [name, value] : set) {
      INFO(name);
      const std::string text = complaint(without(set, name));
      if (needed.contains(name))
        CHECK_THAT(text, Contains(name == "GROUP_WORLD_SIZE" ? "GROUP_RANK" : name));
      else
        CHECK(text.empty());
    }
  }
}

TEST_CASE("a wrong value is an error that names the variable or option") {
  CHECK_THAT(complaint(with(kOwn, "MUSTER_RANK", "4")), Contains("MUSTER_RANK=4 is outside 0..3"));
  CHECK_THAT(complaint(with(kOwn, "MUSTER_LOCAL_RANK", "x")), Contains("MUSTER_LOCAL_RANK='x'"));
  CHECK_THAT(complaint(with(kMpi, "OMPI_COMM_WORLD_RANK", "-1")), Contains("OMPI_COMM_WORLD_RANK=-1"));
  CHECK_THAT(complaint(with(kSlurm, "SLURM_PROCID", "5")), Contains("SLURM_PROCID=5"));
  for (const char* store : {"n01", "n01:", ":1", "::1:5", "n01:0", "n01:70000", "n01:x"}) {
    INFO(store);
    CHECK_THAT(complaint(with(kOwn, "MUSTER_STORE", store)), Contains("MUSTER_STORE='"));
  }
  CHECK_THAT(complaint({}, 2, 2), Contains("rank 2 is outside 0..1"));
  CHECK_THAT(complaint({}, 0, -1), Contains("'size' is not given"));
  CHECK_THAT(complaint({}, -1, 2), Contains("'rank' is not given"));
  CHECK_THAT(complaint({}, 0, 0), Contains("size 0 is outside"));
}

}  // namespace
}  // namespace muster
