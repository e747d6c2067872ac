// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/map_kernels.hpp"

#include "worker_sdk/trainer/nn/cpu/machine.hpp"

namespace muster::nn::cpu {

const MapKernels& map_kernels(bool bf16) {
#ifdef __x86_64__
  // Not by the processor alone: runs whose instructions are bounded and compared have these in them.
  if (at_least(dnnl::cpu_isa::avx512_core)) return bf16 ? kernels::avx512_bf16() : kernels::avx512_f32();
  if (at_least(dnnl::cpu_isa::avx2) && __builtin_cpu_supports("fma"))
    return bf16 ? kernels::avx2_bf16() : kernels::avx2_f32();
#endif
  return bf16 ? kernels::base_bf16() : kernels::base_f32();
}

}  // namespace muster::nn::cpu
