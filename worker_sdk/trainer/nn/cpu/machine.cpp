// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/machine.hpp"

#include <utility>

namespace muster::nn::cpu {

bool at_least(dnnl::cpu_isa isa) {
  // Each set of instructions is a superset of the bits of those before it.
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & static_cast<unsigned>(isa)) ==
         static_cast<unsigned>(isa);
}

std::string instruction_set() {
  using dnnl::cpu_isa;
  constexpr std::pair<cpu_isa, const char*> kNames[] = {{cpu_isa::avx512_core_amx, "avx512_core_amx"},
                                                        {cpu_isa::avx512_core_bf16, "avx512_core_bf16"},
                                                        {cpu_isa::avx512_core_vnni, "avx512_core_vnni"},
                                                        {cpu_isa::avx512_core, "avx512_core"},
                                                        {cpu_isa::avx2_vnni, "avx2_vnni"},
                                                        {cpu_isa::avx2, "avx2"},
                                                        {cpu_isa::avx, "avx"},
                                                        {cpu_isa::sse41, "sse41"}};
  for (const auto& [isa, name] : kNames)
    if (at_least(isa)) return name;
  return "none";
}

bool has_bf16() {
  return at_least(dnnl::cpu_isa::avx512_core_bf16);
}

bool has_fast_bf16() {
  if (at_least(dnnl::cpu_isa::avx512_core_amx)) return true;
#ifdef __x86_64__
  // Zen's products of pairs take as long as one of floats; on Intel's they took longer (measured).
  return at_least(dnnl::cpu_isa::avx512_core_bf16) && __builtin_cpu_is("amd");
#else
  return false;
#endif
}

MapFormat map_format(Precision precision) {
  MapFormat format;
  format.bf16 = precision == Precision::bf16;
  format.blocked = !format.bf16 && at_least(dnnl::cpu_isa::avx512_core);
  return format;
}

}  // namespace muster::nn::cpu
