// SPDX-License-Identifier: Apache-2.0
// The kernels for one instruction set; CMakeLists.txt gives this file its compiler options.
#include "worker_sdk/nn/cpu/map_loops.hpp"
#include "worker_sdk/nn/cpu/row_loops.hpp"

namespace muster::nn::cpu::kernels {

const MapKernels& base(bool bf16) {
  return bf16 ? Entry<Brain>::kTable : Entry<float>::kTable;
}

const RowKernels& base_rows() {
  return kRowTable;
}

}  // namespace muster::nn::cpu::kernels
