// SPDX-License-Identifier: Apache-2.0
// What this machine's processor computes fast.
#pragma once

#include "worker_sdk/trainer/nn/cpu/map.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

#include <string>

namespace muster::nn::cpu {

/// Whether these instructions, and those that come with them, are used here: by oneDNN and by our own
/// kernels. ONEDNN_MAX_CPU_ISA bounds both.
bool at_least(dnnl::cpu_isa isa);

/// Name of the instructions that are used here, as oneDNN calls them: "avx512_core_amx". Sums are rounded in
/// another order with others.
std::string instruction_set();
/// Whether products of bf16 have instructions here (AVX512-BF16, AMX).
bool has_bf16();
/// Whether products of bf16 have instructions here that are faster than those of 32-bit floats.
bool has_fast_bf16();

/// The layout in which convolutions are fastest here.
MapFormat map_format(Precision precision);

}  // namespace muster::nn::cpu
