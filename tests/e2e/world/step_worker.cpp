// SPDX-License-Identifier: Apache-2.0
// As step_worker.c.
#include "muster/muster.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>

int main() {
  try {
    muster::World world;
    for (std::uint64_t k = 1; k <= 3; ++k) {
      std::int32_t one = 1;
      world.set_step(10 * static_cast<std::uint64_t>(world.rank()) + k);
      world.group().all_reduce(std::span(&one, 1));
    }
    world.finalize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_worker: %s\n", error.what());
    return 1;
  }
  return 0;
}
