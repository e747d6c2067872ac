// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/row_kernels.hpp"

#include "worker_sdk/nn/cpu/machine.hpp"

namespace muster::nn::cpu {

const RowKernels& row_kernels() {
  // They are asked for with each piece of a row.
  static const RowKernels& best = []() -> const RowKernels& {
    switch (instructions()) {
#ifdef __x86_64__
      case Instructions::avx512:
        return kernels::avx512_rows();
      case Instructions::avx2:
        return kernels::avx2_rows();
#endif
      default:
        return kernels::base_rows();
    }
  }();
  return best;
}

}  // namespace muster::nn::cpu
