// SPDX-License-Identifier: Apache-2.0
// Sums gradients in 16 bits.
#pragma once

#include "worker_sdk/parallel/bucket_hook.hpp"

namespace muster {

/// Makes a hook that sends gradients in 16 bits, which halves the bytes. Each rank's sum is scaled by a power
/// of two near 1 / samples (so that fp16 does not overflow), rounded to nearest, summed in f32 and rounded
/// once more; the result is the same on all ranks. The error is at most 2^-7 (bf16) or 2^-10 (f16) of the
/// summed values; f16 also loses means below 2^-25. Throws Error (invalid_argument) for a type that is
/// neither bf16 nor f16.
std::unique_ptr<BucketHook> make_half_hook(DataType wire);

}  // namespace muster
