// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::nn::gpu {

/// Every plan that cuDNN proposes for products and convolutions of 32-bit floats, with what its engine says
/// of its numbers and how far its result is off; whether all that may be taken without TF32 keep all bits.
bool check_plans();

}  // namespace muster::nn::gpu
