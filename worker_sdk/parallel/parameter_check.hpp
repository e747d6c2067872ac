// SPDX-License-Identifier: Apache-2.0
// Finds silent corruption: data-parallel ranks hold the same parameters, bit for bit, after every step.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/parameter.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster {

/// A 64-bit hash of the bits of `values`: any change of fewer than 64 adjacent bits changes it. It runs at
/// the speed of memory and is the same on every machine. It finds accidents, and does not resist an
/// adversary.
std::uint64_t hash_values(std::span<const float> values, std::uint64_t seed = 0);

/// Compares the parameters (values[i] of specs[i]) over the ranks; a collective call that sends some 16 bytes
/// per rank if they agree. Returns their hash. Throws Error (mismatch) on every rank alike: "step 40:
/// parameter layer1.0.conv1.weight of rank 3 differs from that of the other ranks; ...". With more than two
/// ranks the majority is right; if there is none, the ranks are named with their hashes. A null `group` is a
/// world of one.
std::uint64_t require_same_parameters(ProcessGroup* group, std::span<const ParameterSpec> specs,
                                      std::span<const float* const> values, std::int64_t step);

/// Does the same with hashes: hash_values() of parameter i with the seed i.
std::uint64_t require_same_hashes(ProcessGroup* group, std::span<const ParameterSpec> specs,
                                  std::span<const std::uint64_t> each, std::int64_t step);

}  // namespace muster
