// SPDX-License-Identifier: Apache-2.0
// What a kernel is. Its body is compiled twice: by NVRTC for a device, and by the host's compiler, where a
// loop over blocks and threads runs the same statements (run_on_host), so that its numbers are tested without
// a GPU.
//
// A kernel is a plain struct of arguments with
//   kThreads  threads of a block, unless it has kBlockThreads,
//   kPhases   parts of the body between which all threads of a block wait for each other, unless it has one,
//   Shared    what the threads of a block share, unless it is nothing,
//   blocks()  the size of the grid,
//   phase(p, place, shared)  part p of the body for one thread. Threads keep nothing from part to part but
//                            what they put into `shared`.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#ifdef __CUDACC__
#define MUSTER_HD __host__ __device__ __forceinline__
#else
#define MUSTER_HD inline
#endif

namespace muster::nn::gpu {

/// The place of a thread: its block, and its number in the block.
struct Place {
  int block = 0;
  int thread = 0;
};

/// The shared memory of kernels whose threads share nothing.
struct Nothing {};

constexpr int kBlockThreads = 256;

/// Blocks for `count` threads, at least one: a grid of none cannot be launched.
constexpr int blocks_for(std::int64_t count) {
  return count < 1 ? 1 : static_cast<int>((count + kBlockThreads - 1) / kBlockThreads);
}

/// Number of the thread in the grid.
MUSTER_HD std::int64_t number_of(const Place& place) {
  return std::int64_t{place.block} * kBlockThreads + place.thread;
}

template <typename Kernel>
constexpr int threads_of() {
  if constexpr (requires { Kernel::kThreads; })
    return Kernel::kThreads;
  else
    return kBlockThreads;
}

template <typename Kernel>
constexpr int phases_of() {
  if constexpr (requires { Kernel::kPhases; })
    return Kernel::kPhases;
  else
    return 1;
}

template <typename Kernel>
constexpr auto shared_of() {
  if constexpr (requires { typename Kernel::Shared; })
    return std::type_identity<typename Kernel::Shared>();
  else
    return std::type_identity<Nothing>();
}

template <typename Kernel>
using SharedOf = typename decltype(shared_of<Kernel>())::type;

#ifndef __CUDACC__
/// The whole grid, block after block, in the calling thread.
template <typename Kernel>
void run_on_host(const Kernel& kernel) {
  const auto shared = std::make_unique<SharedOf<Kernel>>();
  for (int block = 0; block < kernel.blocks(); ++block)
    for (int phase = 0; phase < phases_of<Kernel>(); ++phase)
      for (int thread = 0; thread < threads_of<Kernel>(); ++thread)
        kernel.phase(phase, {block, thread}, *shared);
}
#endif

}  // namespace muster::nn::gpu
