// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/map_kernels.hpp"

#include "worker_sdk/nn/cpu/machine.hpp"

namespace muster::nn::cpu {

const MapKernels& map_kernels(bool bf16) {
  switch (instructions()) {
#ifdef __x86_64__
    case Instructions::avx512:
      return kernels::avx512(bf16);
    case Instructions::avx2:
      return kernels::avx2(bf16);
#endif
    default:
      return kernels::base(bf16);
  }
}

}  // namespace muster::nn::cpu
