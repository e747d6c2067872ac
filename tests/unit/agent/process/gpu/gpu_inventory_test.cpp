// SPDX-License-Identifier: Apache-2.0
#include "agent/process/gpu_inventory.hpp"

#include "catch.hpp"

#include <cstdlib>

using namespace muster::agent;

TEST_CASE("CUDA_VISIBLE_DEVICES decides which GPUs count") {
  const GpuInventory four{{"GPU-aa1", "GPU-aa2", "GPU-b", "GPU-c"}, ""};

  struct Row {
    std::optional<std::string> visible;
    int count;
  };

  const Row rows[] = {
      {std::nullopt, 4},
      {"", 0},
      {"0", 1},
      {"0,1,2,3", 4},
      {"3,1", 2},
      {" 0 , 2", 2},
      {"0,-1,1", 1},  // -1 ends the list
      {"-1", 0},
      {"0,7,1", 1},  // so does a GPU that is not there
      {"0,x,1", 1},
      {"x", 0},
      {"1gpu,2ampere", 2},  // read as strtoul does
      {"0,0", 0},           // named twice: none
      {"GPU-b", 1},
      {"GPU-aa1,GPU-c", 2},
      {"GPU-aa", 0},  // two begin so
      {"GPU-b,GPU-none,GPU-c", 1},
      {"GPU-b,GPU-b", 0},
      {"GPU-b,0", 1},
      {"0,GPU-b", 1},
      {"MIG-1,MIG-2", 2},
      {"MIG-1,MIG-1", 0},
      {"99999999999999999999", 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.visible.value_or("(unset)"));
    CHECK(visible_gpu_count(four, row.visible) == row.count);
    CHECK(numa_nodes_of_gpus(four, row.visible).size() == static_cast<std::size_t>(row.count));
  }
}

TEST_CASE("Visible GPUs come in the order of the variable") {
  using Indices = std::vector<int>;
  const GpuInventory four{{"GPU-aa1", "GPU-aa2", "GPU-b", "GPU-c"}, ""};
  CHECK(visible_gpus(four, std::nullopt) == Indices{0, 1, 2, 3});
  CHECK(visible_gpus(four, "3,1") == Indices{3, 1});
  CHECK(visible_gpus(four, "GPU-c,GPU-aa1") == Indices{3, 0});
  CHECK(visible_gpus(four, "MIG-1,MIG-2") == Indices{-1, -1});
  CHECK(numa_nodes_of_gpus({{"GPU-a"}, "", {"ffff:3b:00.0"}}, std::nullopt) ==
        Indices{-1});  // no such device
}

// The library found is the fake one beside this program: see CMakeLists.txt.
TEST_CASE("The GPUs are those that NVML lists") {
  setenv("MUSTER_FAKE_GPUS", "3", 1);
  unsetenv("MUSTER_FAKE_NVML_ERROR");
  const GpuInventory inventory = read_gpu_inventory();
  CHECK(inventory.error.empty());
  CHECK(inventory.uuids == std::vector<std::string>{"GPU-00-fake", "GPU-01-fake", "GPU-02-fake"});
  CHECK(inventory.pci_addresses == std::vector<std::string>{"ffff:3b:00.0", "ffff:3c:00.0", "ffff:3d:00.0"});
  CHECK(inventory.driver == "550.54.15");
  CHECK(inventory.cuda == "12.4");
  setenv("MUSTER_FAKE_NVML_ERROR", "9", 1);
  CHECK(read_gpu_inventory().error.find("NVML failed with error 9; check") != std::string::npos);
}
