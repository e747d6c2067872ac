// SPDX-License-Identifier: Apache-2.0
// Finds silent corruption: data-parallel ranks hold the same parameters, bit for bit, after every step.
#pragma once

#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/parallel/parameter.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster {

/// 64 bits of the bits of `values`: any change of fewer than 64 adjacent bits changes it. Memory speed; the
/// same on every machine. Finds accidents, does not resist an adversary.
std::uint64_t hash_values(std::span<const float> values, std::uint64_t seed = 0);

/// Compares the parameters (values[i] of specs[i]) over the ranks; a collective call, some 16 bytes a rank
/// where they agree. Returns their hash. Throws Error (mismatch) on every rank alike: "step 40: parameter
/// layer1.0.conv1.weight of rank 3 differs from that of the other ranks; ...". With more than two ranks the
/// majority is right; where there is none the ranks are named with their hashes. Null: a world of one.
std::uint64_t require_same_parameters(ProcessGroup* group, std::span<const ParameterSpec> specs,
                                      std::span<const float* const> values, std::int64_t step);

/// The same from hashes: hash_values() of parameter i with the seed i.
std::uint64_t require_same_hashes(ProcessGroup* group, std::span<const ParameterSpec> specs,
                                  std::span<const std::uint64_t> each, std::int64_t step);

}  // namespace muster
