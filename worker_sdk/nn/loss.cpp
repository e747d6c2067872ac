// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/loss.hpp"

#include <algorithm>
#include <cmath>

namespace muster::nn {

template <typename Label>
BatchScore softmax_cross_entropy(const float* logits, const Label* labels, std::size_t samples,
                                 std::size_t classes, float* gradient, double smoothing) {
  BatchScore score;
  const double spread = smoothing / static_cast<double>(classes);
  for (std::size_t n = 0; n < samples; ++n, logits += classes) {
    const float* best = std::max_element(logits, logits + classes);
    const double peak = static_cast<double>(*best);
    double sum = 0;
    double below = 0;  // what the logits lie below the peak, together
    for (std::size_t c = 0; c < classes; ++c) {
      const double distance = static_cast<double>(logits[c]) - peak;
      sum += std::exp(distance);
      below += distance;
    }
    const auto label = static_cast<std::size_t>(labels[n]);
    const double at_label = static_cast<double>(logits[label]) - peak;
    score.loss += std::log(sum) - (1 - smoothing) * at_label;
    if (smoothing > 0) score.loss -= spread * below;
    if (static_cast<std::size_t>(best - logits) == label) ++score.correct;
    if (gradient == nullptr) continue;
    for (std::size_t c = 0; c < classes; ++c) {
      const double target = spread + (c == label ? 1 - smoothing : 0.0);
      *gradient++ = static_cast<float>(std::exp(static_cast<double>(logits[c]) - peak) / sum - target);
    }
  }
  return score;
}

template BatchScore softmax_cross_entropy(const float*, const std::uint8_t*, std::size_t, std::size_t, float*,
                                          double);
template BatchScore softmax_cross_entropy(const float*, const std::int32_t*, std::size_t, std::size_t, float*,
                                          double);

BatchScore mean_squared_error(const float* results, const float* targets, std::size_t samples,
                              std::size_t width, float* gradient) {
  BatchScore score;
  const double share = 1.0 / static_cast<double>(width);
  for (std::size_t n = 0; n < samples; ++n) {
    double sum = 0;
    for (std::size_t i = n * width; i < (n + 1) * width; ++i) {
      const double distance = static_cast<double>(results[i]) - static_cast<double>(targets[i]);
      sum += distance * distance;
      if (gradient != nullptr) gradient[i] = static_cast<float>(2 * share * distance);
    }
    score.loss += sum * share;
  }
  return score;
}

}  // namespace muster::nn
