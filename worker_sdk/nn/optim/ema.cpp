// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/optim/ema.hpp"

#include "muster/error.hpp"

#include <algorithm>

namespace muster::optim {

Ema::Ema(std::size_t elements, double decay) : share_(static_cast<float>(1 - decay)), average_(elements) {
  if (!(decay >= 0 && decay < 1))
    throw Error(ErrorCode::invalid_argument,
                "an average with decay " + std::to_string(decay) + "; give 0 or more, below 1");
}

void Ema::update(const float* values, std::size_t begin, std::size_t end, std::int64_t step) {
  if (step <= 1) {
    std::copy_n(values, end - begin, average_.data() + begin);
    return;
  }
  float* average = average_.data() + begin;
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < end - begin; ++i) average[i] += share_ * (values[i] - average[i]);
}

void Ema::swap(std::span<float> values, std::size_t begin) {
  std::swap_ranges(values.begin(), values.end(), average_.data() + begin);
}

}  // namespace muster::optim
