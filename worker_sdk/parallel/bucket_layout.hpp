// SPDX-License-Identifier: Apache-2.0
// Which parameter stands where in the flat buckets. Pure.
#pragma once

#include "worker_sdk/parallel/reducer.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::parallel {

/// A contiguous range of the arena that is reduced with one call.
struct Bucket {
  std::size_t offset = 0;
  std::size_t elements = 0;
  /// Indices of its parameters, in the order in which they lie.
  std::vector<std::size_t> parameters;
};

struct BucketLayout {
  /// The buckets in the order in which they are reduced: the model's last parameters first.
  std::vector<Bucket> buckets;
  /// The first element and the bucket of each parameter.
  std::vector<std::size_t> offsets;
  std::vector<std::size_t> bucket_of;
  /// Number of floats in parameters and gaps.
  std::size_t elements = 0;
};

/// Floats between the starts of two parameters are a multiple of this, so that each starts a cache line.
inline constexpr std::size_t kAlignElements = 16;

/// Throws Error (invalid_argument) for no parameters, or a shape that is empty, not positive or too large.
BucketLayout plan_buckets(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options);

/// The model and the bucket sizes as text, one line per parameter: equal text means equal layout.
std::string describe_layout(const std::vector<ParameterSpec>& parameters, const ReducerOptions& options);

/// A sentence about the first line in which two descriptions differ.
std::string first_difference(const std::string& mine, int my_rank, const std::string& theirs, int their_rank);

}  // namespace muster::parallel
