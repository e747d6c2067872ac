// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/cpu/machine.hpp"

#include "worker_sdk/trainer/nn/cpu/row_kernels.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <string>
#include <utility>

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

namespace {

enum class Instructions { base, avx2, avx512 };

Instructions instructions() {
#ifdef __x86_64__
  // Not by the processor alone: runs whose instructions are bounded and compared have these in them.
  if (at_least(dnnl::cpu_isa::avx512_core)) return Instructions::avx512;
  if (at_least(dnnl::cpu_isa::avx2) && __builtin_cpu_supports("fma")) return Instructions::avx2;
#endif
  return Instructions::base;
}

}  // namespace

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
  if (precision == Precision::tf32) return false;
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
