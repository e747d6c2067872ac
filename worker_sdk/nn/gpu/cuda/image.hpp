// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::nn::gpu {

/// The compiled kernels (kernels.cu) for all architectures, embedded in this object.
const void* kernel_image();

}  // namespace muster::nn::gpu
