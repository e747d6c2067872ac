// SPDX-License-Identifier: Apache-2.0
#include "agent/core/binding.hpp"

#include "catch.hpp"
#include "tests/support/cpu_list.hpp"

#include <set>

using namespace muster::agent;

namespace {

/// Two sockets with two NUMA nodes each, every node with four cores of two threads under two caches: CPUs of
/// core c are c and c + 16.
Topology big() {
  Topology topology;
  for (int core = 0; core < 16; ++core)
    topology.cores.push_back({{core, core + 16}, core / 4, core / 8, core / 2});
  return topology;
}

BindingWish bind(const std::string& to, int workers, std::vector<int> gpu_nodes = {}) {
  return {to, "", workers, std::move(gpu_nodes)};
}

BindingWish numa(const std::string& mode, std::vector<int> gpu_nodes) {
  const int workers = static_cast<int>(gpu_nodes.size());
  return {"none", mode, workers, std::move(gpu_nodes)};
}

/// "0-3 4-7": the CPUs of each worker, without the second threads.
std::string shown(const Topology& topology, const BindingWish& wish) {
  const BindingPlan plan = plan_binding(topology, wish);
  if (!plan.error.empty()) return plan.error;
  std::string text;
  for (std::vector<int> cpus : plan.cpus) {
    std::erase_if(cpus, [](int cpu) { return cpu >= 16; });
    text += (text.empty() ? "" : " ") + cpu_list(cpus);
  }
  return text;
}

}  // namespace

TEST_CASE("Nothing is bound unless it is asked for") {
  CHECK(plan_binding(big(), {}).cpus.empty());
  CHECK(plan_binding(big(), {}).error.empty());
}

TEST_CASE("Own cores: equal shares without GPUs, shares of the GPU's NUMA node with them") {
  CHECK(shown(big(), bind("core", 4)) == "0-3 4-7 8-11 12-15");
  CHECK(shown(big(), bind("core", 3)) == "0-4 5-9 10-14");
  CHECK(shown(big(), bind("core", 1)) == "0-15");
  CHECK(shown(big(), bind("core", 16)) == "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
  CHECK(plan_binding(big(), bind("core", 16)).cpus[3] == std::vector<int>{3, 19});  // with its second thread
  CHECK(shown(big(), bind("core", 17)) ==
        "--bind-to core: 17 workers but only 16 cores here; start fewer workers, or leave the flag out");
  CHECK(shown(big(), bind("core", 4, {3, 3, 0, 0})) == "12-13 14-15 0-1 2-3");
  CHECK(shown(big(), bind("core", 3, {0, 0, 2})) == "0-1 2-3 8-9");  // equal shares, so that none is slower
  CHECK(shown(big(), bind("core", 5, {1, 1, 1, 1, 1})).find("5 workers but only 4 cores in NUMA node 1") !=
        std::string::npos);
  CHECK(shown(big(), bind("core", 2, {-1, 3})) ==
        "0-7 8-15");  // one GPU's place is not known: as without GPUs
  CHECK(shown(big(), bind("core", 2, {9, 3})) == "0-7 8-15");  // nor is there such a node here
}

TEST_CASE("A whole NUMA node or socket") {
  CHECK(shown(big(), bind("numa", 4)) == "0-3 4-7 8-11 12-15");
  CHECK(shown(big(), bind("numa", 8)) == "0-3 0-3 4-7 4-7 8-11 8-11 12-15 12-15");
  CHECK(shown(big(), bind("numa", 2)) == "0-3 8-11");
  CHECK(shown(big(), bind("numa", 3, {3, 0, 0})) == "12-15 0-3 0-3");
  CHECK(shown(big(), bind("socket", 2)) == "0-7 8-15");
  CHECK(shown(big(), bind("socket", 4)) == "0-7 0-7 8-15 8-15");
  CHECK(shown(big(), bind("socket", 2, {3, 0})) == "8-15 0-7");
}

TEST_CASE("The modes of torchrun's --numa-binding") {
  CHECK(shown(big(), numa("node", {2, 0})) == "8-11 0-3");
  CHECK(shown(big(), numa("socket", {2, 0})) == "8-15 0-7");
  CHECK(shown(big(), numa("exclusive", {1, 1, 1, 2})) == "4-5 6 7 8-11");
  CHECK(shown(big(), numa("exclusive", {0, 0, 0, 0, 0})).find("5 workers but only 4 cores") !=
        std::string::npos);
  CHECK(shown(big(), numa("core-complex", {1, 1, 1, 2})) == "4-5 6-7 4-5 8-9");
  const std::string unknown = shown(big(), {"none", "node", 2, {0}});
  CHECK(unknown ==
        "--numa-binding node: the NUMA node of a worker's GPU is not known here; use --bind-to, which needs "
        "no GPU");
}

TEST_CASE("The largest cache goes first") {
  Topology topology = big();
  topology.cores.erase(topology.cores.begin());  // core 0 is not ours: its cache has one core left
  CHECK(shown(topology, numa("core-complex", {0, 0})) == "2-3 1");
}

TEST_CASE("A machine of which nothing may be used is an error") {
  CHECK(plan_binding({}, bind("core", 1)).error.find("no CPU of this machine may be used") !=
        std::string::npos);
}

TEST_CASE("Workers with own cores never share one, on any machine") {
  for (int cores = 1; cores <= 12; ++cores)
    for (int nodes = 1; nodes <= 3; ++nodes)
      for (int workers = 1; workers <= cores; ++workers) {
        Topology topology;
        for (int core = 0; core < cores; ++core)
          topology.cores.push_back({{core}, core * nodes / cores, 0, 0});
        const BindingPlan plan = plan_binding(topology, bind("core", workers));
        REQUIRE(plan.error.empty());
        std::set<int> used;
        for (const auto& cpus : plan.cpus) {
          CHECK(cpus.size() == static_cast<std::size_t>(cores / workers));
          for (const int cpu : cpus) CHECK(used.insert(cpu).second);
        }
      }
}
