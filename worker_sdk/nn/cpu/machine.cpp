// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/machine.hpp"

namespace muster::nn::cpu {

bool at_least(dnnl::cpu_isa isa) {
  // Each set of instructions is a superset of the bits of those before it.
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & static_cast<unsigned>(isa)) ==
         static_cast<unsigned>(isa);
}

MapFormat map_format(Precision precision) {
  MapFormat format;
  format.bf16 = precision == Precision::bf16;
  format.blocked = !format.bf16 && at_least(dnnl::cpu_isa::avx512_core);
  return format;
}

Instructions instructions() {
#ifdef __x86_64__
  // Not by the processor alone: runs whose instructions are bounded and compared have these in them.
  if (at_least(dnnl::cpu_isa::avx512_core)) return Instructions::avx512;
  if (at_least(dnnl::cpu_isa::avx2) && __builtin_cpu_supports("fma")) return Instructions::avx2;
#endif
  return Instructions::base;
}

}  // namespace muster::nn::cpu
