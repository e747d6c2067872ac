// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/exported_environment.hpp"

#include "catch.hpp"
#include "tests/unit/launcher/hosts/refusal.hpp"

using namespace muster::launcher;

TEST_CASE("Variables that tell how programs and libraries work are exported, secrets and places are not") {
  for (const char* name :
       {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHON_EXEC", "NCCL_DEBUG", "OMP_NUM_THREADS",
        "TORCH_DISTRIBUTED_DEBUG", "PYTORCH_CUDA_ALLOC_CONF", "GLOO_SOCKET_IFNAME", "UCX_TLS",
        "MUSTER_REPORT_AFTER", "CONDA_PREFIX", "VIRTUAL_ENV", "LC_ALL"}) {
    CAPTURE(name);
    CHECK(is_exported_by_default(name));
  }
  for (const char* name : {"HOME",
                           "USER",
                           "PWD",
                           "HOSTNAME",
                           "DISPLAY",
                           "SSH_AUTH_SOCK",
                           "SSH_CONNECTION",
                           "CUDA_VISIBLE_DEVICES",
                           "TMPDIR",
                           "RANK",
                           "MASTER_ADDR",
                           "WANDB_API_KEY",
                           "HF_TOKEN",
                           "AWS_SECRET_ACCESS_KEY",
                           "NCCL_SECRET",
                           "TORCH_TOKEN",
                           "MUSTER_KEY",
                           "MUSTER_PASSWORD",
                           "MUSTER_STATUS",
                           "MUSTER_STOP_FILE",
                           "TORCHELASTIC_ERROR_FILE",
                           "PET_NNODES",
                           "SLURM_JOB_ID"}) {
    CAPTURE(name);
    CHECK_FALSE(is_exported_by_default(name));
  }
}

TEST_CASE("Where the ranks of a job around this one write their flight records is not exported") {
  const Environment ours = {{"TORCH_FR_DUMP_TEMP_FILE", "/outer/flight_record_round0_rank"},
                            {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/tmp/flight_round0_rank"},
                            {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/mine"}};
  CHECK(exported_environment(ours, {}).variables ==
        Environment{{"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/mine"}});
}

TEST_CASE("Names and beginnings that are asked for are added, and those we lack are told") {
  const Environment ours = {
      {"PATH", "/bin"}, {"WANDB_A", "1"}, {"WANDB_API_KEY", "k"}, {"X", ""}, {"HOME", "/h"}};
  const auto exported =
      exported_environment(ours, {{"WANDB_", true}, {"X", false}, {"Y", false}, {"Z_", true}});
  CHECK(exported.variables ==
        Environment{{"PATH", "/bin"}, {"WANDB_A", "1"}, {"WANDB_API_KEY", "k"}, {"X", ""}});
  CHECK(exported.missing == std::vector<std::string>{"Y", "Z_*"});
}

TEST_CASE("More than a program can be started with is refused by name") {
  CHECK(refusal_of([] {
          exported_environment({{"NCCL_X", std::string(200'000, 'x')}}, {});
        }).says("NCCL_X has 2000"));
  Environment many;
  for (int i = 0; i < 20; ++i) many.emplace_back("NCCL_" + std::to_string(i), std::string(100'000, 'x'));
  CHECK(refusal_of([&] { exported_environment(many, {}); }).says("at most 1048576 are possible"));
}

TEST_CASE("Values of variables that look like secrets are not shown") {
  CHECK(without_secrets("--export=WANDB_API_KEY=abc=d,DEBUG=1,MY_TOKEN=x") ==
        "--export=WANDB_API_KEY=...,DEBUG=1,MY_TOKEN=...");
  CHECK(without_secrets("HF_TOKEN=x") == "HF_TOKEN=...");
  CHECK(without_secrets("--secret-file=/a/key") == "--secret-file=/a/key");
  CHECK(without_secrets("--nproc-per-node=2") == "--nproc-per-node=2");
  CHECK(without_secrets("") == "");
}
