// SPDX-License-Identifier: Apache-2.0
// MUSTER_GPU_IMAGE is the path of what nvcc made of kernels.cu.
#include "worker_sdk/nn/gpu/cuda/image.hpp"

asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden muster_gpu_kernel_image\n"
    ".global muster_gpu_kernel_image\n"
    "muster_gpu_kernel_image:\n"
    ".incbin \"" MUSTER_GPU_IMAGE
    "\"\n"
    ".byte 0\n"
    ".popsection\n");

extern "C" __attribute__((visibility("hidden"))) const unsigned char muster_gpu_kernel_image[];

namespace muster::nn::gpu {

const void* kernel_image() {
  return muster_gpu_kernel_image;
}

}  // namespace muster::nn::gpu
