// SPDX-License-Identifier: Apache-2.0
#include "agent/core/worker_environment.hpp"

#include "catch.hpp"

#include <stdexcept>

using namespace muster::agent;

namespace {

muster::rendezvous::RoundResult place() {
  muster::rendezvous::RoundResult result;
  result.world_size = 4;
  result.first_rank = 2;
  result.node_rank = 1;
  result.nodes = 2;
  result.store_host = "127.0.0.1";
  result.store_port = 4711;
  return result;
}

AgentSpec two_workers() {
  AgentSpec spec;
  spec.workers = 2;
  spec.command = {"python3", "${local_rank}", "--rank=${local_rank}", "a$$b"};
  spec.first_script_argument = 2;
  return spec;
}

std::string value_of(const Environment& environment, const std::string& name) {
  const std::string* value = find_variable(environment, name);
  return value == nullptr ? "(unset)" : *value;
}

}  // namespace

TEST_CASE("A worker's environment is what it inherits, then the spec's, then the contract") {
  AgentSpec spec = two_workers();
  spec.environment = {{"OMP_NUM_THREADS", "1"}};
  const Environment inherited{{"HOME", "/h"}, {"RANK", "99"}, {"OMP_NUM_THREADS", "8"}};
  const Environment environment = worker_environment(spec, place(), 1, 2, "/e.json", inherited);
  CHECK(value_of(environment, "HOME") == "/h");
  CHECK(value_of(environment, "RANK") == "3");
  CHECK(value_of(environment, "LOCAL_RANK") == "1");
  CHECK(value_of(environment, "WORLD_SIZE") == "4");
  CHECK(value_of(environment, "OMP_NUM_THREADS") == "1");
  CHECK(value_of(environment, "MASTER_PORT") == "4711");
  CHECK(value_of(environment, "TORCHELASTIC_RESTART_COUNT") == "2");
  CHECK(value_of(environment, "TORCHELASTIC_ERROR_FILE") == "/e.json");
  CHECK(value_of(environment, "CUDA_VISIBLE_DEVICES") == "(unset)");
  int ranks = 0;
  for (const auto& [name, value] : environment) ranks += name == "RANK" ? 1 : 0;
  CHECK(ranks == 1);
}

TEST_CASE("--virtual-local-rank gives each worker one device and local rank 0") {
  AgentSpec spec = two_workers();
  spec.virtual_local_rank = true;
  const auto device = [&](int local_rank, const std::string& list) {
    const Environment inherited{{"CUDA_VISIBLE_DEVICES", list}};
    const Environment environment = worker_environment(spec, place(), local_rank, 0, "", inherited);
    CHECK(value_of(environment, "LOCAL_RANK") == "0");
    return value_of(environment, "CUDA_VISIBLE_DEVICES");
  };
  CHECK(device(0, "5,GPU-7") == "5");
  CHECK(device(1, "5,GPU-7") == "GPU-7");
  CHECK_THROWS_AS(device(1, "5"), std::invalid_argument);
  CHECK(value_of(worker_environment(spec, place(), 1, 0, "", {}), "CUDA_VISIBLE_DEVICES") == "1");
}

TEST_CASE("Where workers are bound near GPUs, CUDA numbers these by their places on the bus") {
  AgentSpec spec = two_workers();
  const auto order = [&](const Environment& inherited) {
    return value_of(worker_environment(spec, place(), 0, 0, "", inherited), "CUDA_DEVICE_ORDER");
  };
  CHECK(order({}) == "(unset)");
  spec.bind_to = "numa";
  CHECK(order({}) == "PCI_BUS_ID");
  CHECK(order({{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}) == "FASTEST_FIRST");
  spec.bind_to = "none";
  spec.numa_binding = "node";
  CHECK(order({}) == "PCI_BUS_ID");
}

TEST_CASE("Only script arguments go through the macro") {
  const std::vector<std::string> arguments = worker_arguments(two_workers(), 1);
  CHECK(arguments == std::vector<std::string>{"python3", "${local_rank}", "--rank=1", "a$$b"});
}

TEST_CASE("A worker is told of its own status file and of no other") {
  const Environment inherited = {{"MUSTER_STATUS", "1:2:3"}, {"HOME", "/home"}};
  const Environment with = worker_environment(two_workers(), place(), 1, 0, "", inherited, "4711:12:99");
  CHECK(value_of(with, "MUSTER_STATUS") == "4711:12:99");
  CHECK(value_of(worker_environment(two_workers(), place(), 1, 0, "", inherited), "MUSTER_STATUS") ==
        "(unset)");
}

TEST_CASE("A worker is told of its own stop file, and not of that of a job around this one") {
  const Environment inherited = {{"MUSTER_STOP_FILE", "/outer/stop"}};
  const auto with = [&](const std::string& stop_file) {
    return value_of(worker_environment(two_workers(), place(), 0, 0, "", inherited, "", "", stop_file),
                    "MUSTER_STOP_FILE");
  };
  CHECK(with("/inner/stop") == "/inner/stop");
  CHECK(with("") == "(unset)");
}

TEST_CASE("The watchdog is wanted as the workers' environment says") {
  AgentSpec spec = two_workers();
  CHECK_FALSE(watchdog_pipe(spec, {{"TORCHELASTIC_TIMER_FILE", "/t"}}));
  CHECK_FALSE(watchdog_pipe(spec, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "0"}}));
  CHECK(watchdog_pipe(spec, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}) == "");
  CHECK(watchdog_pipe(spec, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}, {"TORCHELASTIC_TIMER_FILE", "/t"}}) ==
        "/t");
  spec.environment = {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}};
  CHECK(watchdog_pipe(spec, {}) == "");
  spec.environment.clear();
  spec.unset_environment = {"TORCHELASTIC_ENABLE_FILE_TIMER"};
  CHECK_FALSE(watchdog_pipe(spec, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}));
}

TEST_CASE("Workers find the watchdog's pipe, and without one what they would inherit") {
  const Environment inherited{{"TORCHELASTIC_TIMER_FILE", "/outer"}};
  const auto with = [&](const std::string& pipe) {
    return value_of(worker_environment(two_workers(), place(), 0, 0, "", inherited, "", pipe),
                    "TORCHELASTIC_TIMER_FILE");
  };
  CHECK(with("/tmp/p/timers") == "/tmp/p/timers");
  CHECK(with("") == "/outer");
}

TEST_CASE("The local rank is the only macro, and no other dollar sign is touched") {
  struct Row {
    std::string_view text;
    std::string_view expected;
  };

  const Row rows[] = {
      {"", ""},
      {"plain", "plain"},
      {"${local_rank}", "3"},
      {"$local_rank", "3"},
      {"--gpu=$local_rank,", "--gpu=3,"},
      {"a$$b", "a$$b"},
      {"kill -9 $$", "kill -9 $$"},
      {"$$ $$$ ${$}", "$$ $$$ ${$}"},
      {"$$local_rank", "$local_rank"},
      {"$${local_rank}", "${local_rank}"},
      {"$$$local_rank", "$$local_rank"},
      {"$$ $local_rank", "$$ 3"},
      {"$local_rank$local_rank", "33"},
      {"$$local_rank2", "$$local_rank2"},
      {"$$other $${other}", "$$other $${other}"},
      {"$local_rank2", "$local_rank2"},
      {"$local_rank_", "$local_rank_"},
      {"$local_rank-", "3-"},
      {"${local_rank}2", "32"},
      {"$LOCAL_RANK", "$LOCAL_RANK"},
      {"$other ${other}", "$other ${other}"},
      {"100$", "100$"},
      {"$1 $-", "$1 $-"},
      {"${local_rank", "${local_rank"},
      {"${ local_rank}", "${ local_rank}"},
      {"${}", "${}"},
      {"$rank/$local_rank", "$rank/3"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(substitute_local_rank(row.text, "3") == row.expected);
  }
}
