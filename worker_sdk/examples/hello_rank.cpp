// SPDX-License-Identifier: Apache-2.0
// hello_rank: the smallest program that uses the SDK. Every rank adds its number; all print the same sum.
#include "muster/muster.hpp"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>

int main() {
  try {
    muster::World world;
    std::int64_t sum = world.rank();
    world.group().all_reduce(std::span(&sum, 1));
    std::printf("rank %d of %d: the sum of all ranks is %lld\n", world.rank(), world.size(),
                static_cast<long long>(sum));
    world.finalize();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hello_rank: %s\n", error.what());
    return 1;
  }
}
