// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/ops.hpp"

namespace muster::nn::gpu {

/// Compares every layer of rows, forward and backward, with the host's kernels, in both precisions; prints a
/// line for each. False where numbers are further off than rounding explains, or differ the second time.
bool check_rows(Ops& ops);

}  // namespace muster::nn::gpu
