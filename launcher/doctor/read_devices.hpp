// SPDX-License-Identifier: Apache-2.0
// Reads which GPUs and adapters this host has, and which NCCL.
#pragma once

#include "launcher/doctor/core/host_facts.hpp"

#include <string>

namespace muster::launcher {

/// Asks NVIDIA's driver through NVML, which is loaded for that, and looks at the devices below /sys.
GpuFacts read_gpus();

/// Loads libnccl.so.2, found as every shared library is, and asks for its version: "2.28.9"; empty if there
/// is none. It stays loaded.
std::string read_nccl_library();

}  // namespace muster::launcher
