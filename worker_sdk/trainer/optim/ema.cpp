// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/optim/ema.hpp"

#include "muster/error.hpp"

#include <algorithm>

namespace muster::optim {

Ema::Ema(std::size_t elements, double decay) : step_(static_cast<float>(1 - decay)), average_(elements) {
  if (!(decay >= 0 && decay < 1))
    throw Error(ErrorCode::invalid_argument,
                "an average with decay " + std::to_string(decay) + "; give 0 or more, below 1");
}

void Ema::update(std::span<const float> values) {
  if (updates_++ == 0) {
    std::copy(values.begin(), values.end(), average_.begin());
    return;
  }
  float* average = average_.data();
  const float* now = values.data();
  const std::size_t count = average_.size();
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < count; ++i) average[i] += step_ * (now[i] - average[i]);
}

void Ema::swap(std::span<float> values) {
  if (updates_ > 0) std::swap_ranges(values.begin(), values.end(), average_.begin());
}

}  // namespace muster::optim
