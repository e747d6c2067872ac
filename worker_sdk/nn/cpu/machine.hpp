// SPDX-License-Identifier: Apache-2.0
// What this machine's processor computes fast.
#pragma once

#include "worker_sdk/nn/cpu/map.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstdint>

namespace muster::nn::cpu {

/// Whether these instructions, and those that come with them, are used here: by oneDNN and by our own
/// kernels. ONEDNN_MAX_CPU_ISA bounds both.
bool at_least(dnnl::cpu_isa isa);

/// The sets of instructions that our own kernels are compiled for.
enum class Instructions : std::uint8_t { base, avx2, avx512 };

/// The best of them that is used here.
Instructions instructions();

/// The layout in which convolutions are fastest here.
MapFormat map_format(Precision precision);

}  // namespace muster::nn::cpu
