// SPDX-License-Identifier: Apache-2.0
// The compiled kernels (kernels.cu), embedded in the plug-in: machine code for each architecture that
// MUSTER_CUDA_ARCHITECTURES names, and PTX for devices that are newer than the newest of them, which the
// driver translates when it loads it.
#pragma once

#include <span>
#include <string>

namespace muster::nn::gpu {

/// Kernels for one architecture, as cuModuleLoadData() takes them.
struct KernelImage {
  int architecture;  ///< a compute capability: 75, 80, 90 ...
  bool is_ptx;
  const void* data;

  /// "compute capability 9.0", with "PTX" where it is.
  std::string target() const;
};

/// All that are embedded, by architecture; PTX is the last.
std::span<const KernelImage> kernel_images();

/// The one for a device: machine code runs on devices of its major number and a minor one that is not smaller
/// (https://docs.nvidia.com/cuda/cuda-c-programming-guide/, "Binary Compatibility"), of which the newest is
/// taken; else PTX, where it is not for a newer device. Throws Error (unsupported) that names the device's
/// capability where there is none. Pure.
const KernelImage& choose_image(std::span<const KernelImage> images, int capability);

}  // namespace muster::nn::gpu
