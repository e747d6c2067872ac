// SPDX-License-Identifier: Apache-2.0
// Reads which GPUs and adapters this host has, and which NCCL and cuDNN.
#pragma once

#include "launcher/doctor/core/host_facts.hpp"

#include <string>

namespace muster::launcher {

/// Asks NVIDIA's driver through NVML, which is loaded for that, and looks at the devices below /sys.
GpuFacts read_gpus();

/// Finds NCCL and cuDNN as the SDK's plug-ins do (comm/plugin/nvidia_library.hpp), and asks for their
/// versions. They stay loaded.
LibraryFacts read_nccl_library();
LibraryFacts read_cudnn_library();

}  // namespace muster::launcher
