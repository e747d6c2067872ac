// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/cpu/processors.hpp"

#include "worker_sdk/nn/cpu/machine.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <utility>

namespace muster::nn {

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
    if (cpu::at_least(isa)) return name;
  return "none";
}

bool supports(Precision precision) {
  if (precision == Precision::tf32 || precision == Precision::f16) return false;
  return precision == Precision::f32 || cpu::at_least(dnnl::cpu_isa::avx512_core_bf16);
}

bool is_fast(Precision precision) {
  if (precision == Precision::f32) return true;
  if (!supports(precision)) return false;
  if (cpu::at_least(dnnl::cpu_isa::avx512_core_amx)) return true;
#ifdef __x86_64__
  // Zen's products of pairs take as long as one of floats; on Intel's they took longer (measured).
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

#ifdef _OPENMP
int threads() {
  return omp_get_max_threads();
}

void set_threads(int count) {
  omp_set_num_threads(count);
}
#else
int threads() {
  return 1;
}

void set_threads(int) {}
#endif

}  // namespace muster::nn
