// SPDX-License-Identifier: Apache-2.0
// The kernels of kernels/list.hpp for devices, each under its plain name. Compiled by NVRTC for each
// architecture (scripts/compile_kernels.py), embedded in the plug-in and loaded by the driver; there is no
// host code here.
#include "worker_sdk/nn/gpu/kernels/list.hpp"

namespace muster::nn::gpu {
namespace {

template <typename Kernel>
__device__ __forceinline__ void run(const Kernel& kernel) {
  __shared__ SharedOf<Kernel> shared;
  const Place place = {static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x)};
#pragma unroll
  for (int phase = 0; phase < phases_of<Kernel>(); ++phase) {
    if (phase > 0) __syncthreads();
    kernel.phase(phase, place, shared);
  }
}

}  // namespace

#define MUSTER_GPU_ENTRY(Kernel, name)                               \
  extern "C" __global__ void __launch_bounds__(threads_of<Kernel>()) \
      muster_##name(const __grid_constant__ Kernel kernel) {         \
    run(kernel);                                                     \
  }
MUSTER_GPU_KERNELS(MUSTER_GPU_ENTRY)

}  // namespace muster::nn::gpu
