// SPDX-License-Identifier: Apache-2.0
// A model of four parameters in three buckets, with gradients that are exact whatever the order of addition.
#pragma once

#include "worker_sdk/parallel/reducer.hpp"

#include <cstdint>
#include <vector>

namespace muster::test {

inline const std::vector<ParameterSpec> kModel = {{"a", {40}}, {"b", {3, 5}}, {"c", {100}}, {"d", {1}}};

/// In the order in which backward comes to them.
inline const std::vector<std::size_t> kLastFirst = {3, 2, 1, 0};

/// Buckets so small that the model needs three: {d}, {c}, {b, a}.
inline ReducerOptions small_buckets() {
  ReducerOptions options;
  options.first_bucket_bytes = 16;
  options.bucket_bytes = 256;
  return options;
}

/// Backward over the samples [begin, end): sums of small whole numbers. Without samples every other parameter
/// is said to be unused, in place of a gradient of zero.
inline void backward(Reducer& reducer, std::int64_t begin, std::int64_t end,
                     const std::vector<std::size_t>& order = kLastFirst) {
  for (const std::size_t i : order) {
    if (begin == end && i % 2 == 1) {
      reducer.mark_unused(i);
      continue;
    }
    for (std::size_t k = 0; k < kModel[i].elements(); ++k) {
      float sum = 0;
      for (std::int64_t sample = begin; sample < end; ++sample)
        sum += static_cast<float>((sample * 7 + static_cast<std::int64_t>(i * 3 + k)) % 11 - 5);
      reducer.gradient(i)[k] = sum;
    }
    reducer.gradient_ready(i);
  }
}

inline std::vector<float> arena_of(Reducer& reducer) {
  return {reducer.gradients(), reducer.gradients() + reducer.elements()};
}

/// The gradients of one rank that has all of these samples.
inline std::vector<float> alone(std::int64_t begin, std::int64_t end) {
  Reducer reducer(kModel, nullptr, small_buckets());
  reducer.begin_step(end - begin);
  backward(reducer, begin, end);
  reducer.finish_step();
  return arena_of(reducer);
}

}  // namespace muster::test
