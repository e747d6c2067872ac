// SPDX-License-Identifier: Apache-2.0

#include "agent/process/topology.hpp"

#include "agent/process/worker_binding.hpp"
#include "catch.hpp"
#include "tests/support/cpu_list.hpp"
#include "tests/support/skip.hpp"

#include <sched.h>

#include <set>

using namespace muster::agent;

namespace {

std::vector<std::string> planned(const std::string& machine, const BindingWish& wish) {
  const TopologyResult read = synthetic_topology(machine);
  REQUIRE(read.error.empty());
  std::vector<std::string> lists;
  for (const auto& cpus : plan_binding(read.topology, wish).cpus) lists.push_back(cpu_list(cpus));
  return lists;
}

}  // namespace

TEST_CASE("Machines made up in hwloc's words") {
  using Lists = std::vector<std::string>;
  if (const auto read = synthetic_topology("pu:2"); !read.error.empty()) {
    muster::test::skip(read.error);
    return;
  }
  const std::string machine = "package:2 numanode:2 l3cache:2 core:2 pu:2";  // 16 cores, 32 CPUs
  const Topology topology = synthetic_topology(machine).topology;
  REQUIRE(topology.cores.size() == 16);
  CHECK(topology.cores[5].cpus == std::vector<int>{10, 11});
  CHECK(topology.cores[5].numa_node == 1);
  CHECK(topology.cores[5].socket == 0);
  CHECK(topology.cores[5].complex == 2);
  CHECK(topology.cores[15].numa_node == 3);
  CHECK(topology.cores[15].socket == 1);
  CHECK(planned(machine, {"core", "", 4, {}}) == Lists{"0-7", "8-15", "16-23", "24-31"});
  CHECK(planned(machine, {"numa", "", 2, {3, 1}}) == Lists{"24-31", "8-15"});
  CHECK(planned(machine, {"socket", "", 2, {}}) == Lists{"0-15", "16-31"});
  CHECK(planned(machine, {"none", "core-complex", 2, {2, 2}}) == Lists{"16-19", "20-23"});
  CHECK(planned("core:4 pu:1", {"numa", "", 2, {}}) == Lists{"0-3", "0-3"});  // no NUMA, no cache
  CHECK(planned("pu:4", {"core", "", 2, {}}) == Lists{"0-1", "2-3"});         // no cores
  CHECK_FALSE(synthetic_topology("core:zwei").error.empty());
}

TEST_CASE("The CPUs of a node's workers") {
  CHECK(plan_worker_binding({}).cpus.empty());
  AgentSpec spec;
  spec.bind_to = "core";
  spec.workers = 1;
  const BindingPlan plan = plan_worker_binding(spec);
  if (!plan.error.empty()) {
    muster::test::skip(plan.error);
    return;
  }
  REQUIRE(plan.cpus.size() == 1);
  const std::vector<unsigned long> mask = affinity_mask(plan.cpus[0]);
  CHECK(sched_setaffinity(0, mask.size() * sizeof(unsigned long),
                          reinterpret_cast<const cpu_set_t*>(mask.data())) == 0);
  CHECK(affinity_mask({0, 3, 64}) == std::vector<unsigned long>{9, 1});
}

TEST_CASE("This machine: only CPUs of our affinity mask") {
  const TopologyResult read = read_topology();
  if (!read.error.empty()) {
    muster::test::skip(read.error);
    return;
  }
  cpu_set_t own;
  REQUIRE(sched_getaffinity(0, sizeof own, &own) == 0);
  std::set<int> cpus;
  for (const auto& core : read.topology.cores) cpus.insert(core.cpus.begin(), core.cpus.end());
  CHECK(static_cast<int>(cpus.size()) == CPU_COUNT(&own));
  const int kept = *cpus.begin();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(kept), &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const TopologyResult less = read_topology();
  CHECK(sched_setaffinity(0, sizeof own, &own) == 0);
  REQUIRE(less.topology.cores.size() == 1);
  CHECK(less.topology.cores[0].cpus == std::vector<int>{kept});
}
