// SPDX-License-Identifier: Apache-2.0
// MUSTER_GPU_IMAGES is the path of a list, which CMake writes: MUSTER_GPU_CUBIN(architecture, "file") for
// each, and MUSTER_GPU_PTX.
#include "worker_sdk/nn/gpu/cuda/image.hpp"

#include "muster/error.hpp"

#include <array>

// NOLINTBEGIN(bugprone-macro-parentheses) a name in a declaration
// Text ends with a zero, which the driver needs of PTX.
#define MUSTER_GPU_EMBED(symbol, file) \
  asm(".pushsection .rodata\n"         \
      ".balign 64\n"                   \
      ".hidden " #symbol               \
      "\n"                             \
      ".global " #symbol "\n" #symbol  \
      ":\n"                            \
      ".incbin \"" file                \
      "\"\n"                           \
      ".byte 0\n"                      \
      ".popsection\n");                \
  extern "C" __attribute__((visibility("hidden"))) const unsigned char symbol[];
// NOLINTEND(bugprone-macro-parentheses)

#define MUSTER_GPU_CUBIN(architecture, file) MUSTER_GPU_EMBED(muster_gpu_cubin_##architecture, file)
#define MUSTER_GPU_PTX(architecture, file) MUSTER_GPU_EMBED(muster_gpu_ptx_##architecture, file)
#include MUSTER_GPU_IMAGES
#undef MUSTER_GPU_CUBIN
#undef MUSTER_GPU_PTX

namespace muster::nn::gpu {
namespace {

constexpr KernelImage kImages[] = {
#define MUSTER_GPU_CUBIN(architecture, file) {architecture, false, muster_gpu_cubin_##architecture},
#define MUSTER_GPU_PTX(architecture, file) {architecture, true, muster_gpu_ptx_##architecture},
#include MUSTER_GPU_IMAGES
};

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

bool runs(const KernelImage& image, int capability) {
  return image.architecture <= capability && (image.is_ptx || image.architecture / 10 == capability / 10);
}

}  // namespace

std::string KernelImage::target() const {
  return "compute capability " + capability_text(architecture) + (is_ptx ? ", from PTX" : "");
}

std::span<const KernelImage> kernel_images() {
  return kImages;
}

const KernelImage& choose_image(std::span<const KernelImage> images, int capability) {
  const KernelImage* best = nullptr;
  for (const KernelImage& image : images)
    if (runs(image, capability) && (best == nullptr || best->is_ptx || !image.is_ptx)) best = &image;
  if (best != nullptr) return *best;
  std::string all;
  for (const KernelImage& image : images)
    all += (all.empty() ? "" : ", ") + std::string(image.is_ptx ? "later than " : "") +
           capability_text(image.architecture);
  throw Error(ErrorCode::unsupported,
              "this build has no kernels for a GPU of compute capability " + capability_text(capability) +
                  ", only for " + all +
                  "; build with MUSTER_CUDA_ARCHITECTURES=" + std::to_string(capability));
}

}  // namespace muster::nn::gpu
