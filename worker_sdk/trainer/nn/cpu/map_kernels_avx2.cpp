// SPDX-License-Identifier: Apache-2.0
// The map kernels for one instruction set; CMakeLists.txt gives this file its compiler options.
#include "worker_sdk/trainer/nn/cpu/map_loops.hpp"

namespace muster::nn::cpu::kernels {

const MapKernels& avx2_f32() {
  return Entry<float>::kTable;
}

const MapKernels& avx2_bf16() {
  return Entry<Brain>::kTable;
}

}  // namespace muster::nn::cpu::kernels
