// SPDX-License-Identifier: Apache-2.0
// What this machine's processor computes fast.
#pragma once

#include "worker_sdk/trainer/nn/cpu/map.hpp"
#include "worker_sdk/trainer/nn/network.hpp"

namespace muster::nn::cpu {

/// Whether these instructions, and those that come with them, are used here: by oneDNN and by our own
/// kernels. ONEDNN_MAX_CPU_ISA bounds both.
bool at_least(dnnl::cpu_isa isa);

/// The layout in which convolutions are fastest here.
MapFormat map_format(Precision precision);

}  // namespace muster::nn::cpu
