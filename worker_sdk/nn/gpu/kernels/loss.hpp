// SPDX-License-Identifier: Apache-2.0
// Logits, softmax cross-entropy with label smoothing, and the score of a batch.
#pragma once

#include "worker_sdk/nn/gpu/kernels/block_sums.hpp"
#include "worker_sdk/nn/gpu/kernels/pack.hpp"

#include <cmath>
#include <cstdint>

namespace muster::nn::gpu {

/// Logits of the last layer: images x padded products, without the padding and with the bias.
template <typename T>
struct FinishLogits {
  std::int64_t images;
  int classes;
  int padded;
  const T* products;
  const float* bias;
  float* logits;

  constexpr int blocks() const { return blocks_for(images * classes); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = number_of(place);
    if (i >= images * classes) return;
    const auto c = static_cast<int>(i % classes);
    logits[i] = to_float(products[i / classes * padded + c]) + bias[c];
  }
};

/// Loss and hit (1 or 0) of each image; where `gradient` is not null, the gradient of the *summed* loss. With
/// smoothing s the wanted distribution is 1 - s on the label and s / classes on every class (PyTorch
/// documentation, "CrossEntropyLoss", label_smoothing), multiplied with `factor` where that is not null.
struct CrossEntropy {
  std::int64_t images;
  int classes;
  float smoothing;
  const float* logits;
  const std::int32_t* labels;
  float* losses;
  float* hits;
  float* gradient;
  const float* factor = nullptr;

  constexpr int blocks() const { return blocks_for(images); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t n = number_of(place);
    if (n >= images) return;
    const float* x = logits + n * classes;
    int best = 0;
    for (int c = 1; c < classes; ++c)
      if (x[c] > x[best]) best = c;
    const float peak = x[best];
    float sum = 0;
    float all = 0;
    for (int c = 0; c < classes; ++c) {
      sum += expf(x[c] - peak);
      all += x[c] - peak;
    }
    const int label = labels[n];
    const float even = smoothing / static_cast<float>(classes);
    // -(sum over c of wanted(c) * (x[c] - peak - log(sum))); the wanted shares add up to 1.
    losses[n] = logf(sum) - (1.0F - smoothing) * (x[label] - peak) - even * all;
    hits[n] = best == label ? 1.0F : 0.0F;
    if (gradient == nullptr) return;
    const float multiple = factor == nullptr ? 1.0F : *factor;
    for (int c = 0; c < classes; ++c) {
      const float wanted = even + (c == label ? 1.0F - smoothing : 0.0F);
      gradient[n * classes + c] = (expf(x[c] - peak) / sum - wanted) * multiple;
    }
  }
};

/// The loss of each image, the mean of its squared errors, and 0 as its hit; where `gradient` is not null,
/// the gradient of the *summed* loss, multiplied with `factor` where that is not null.
struct SquaredError {
  std::int64_t images;
  int width;
  const float* results;
  const float* targets;
  float* losses;
  float* hits;
  float* gradient;
  const float* factor = nullptr;

  constexpr int blocks() const { return blocks_for(images); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t n = number_of(place);
    if (n >= images) return;
    const float multiple = factor == nullptr ? 1.0F : *factor;
    const float share = 1.0F / static_cast<float>(width);
    float sum = 0;
    for (std::int64_t i = n * width; i < (n + 1) * width; ++i) {
      const float distance = results[i] - targets[i];
      sum += distance * distance;
      if (gradient != nullptr) gradient[i] = 2.0F * share * distance * multiple;
    }
    losses[n] = sum * share;
    hits[n] = 0;
  }
};

/// Adds the losses and hits of a batch to `score`, in double and in a fixed order.
struct AddScore {
  using Shared = BlockSums<2>;
  static constexpr int kPhases = Shared::kSteps + 2;

  std::int64_t images;
  const float* losses;
  const float* hits;
  double* score;  ///< loss, correct answers, images
  /// The samples of a step; null: none is made. They become no number where the loss is none. Then no rank
  /// steps (optimizer.hpp), and the parameters are still those that led there.
  float* samples = nullptr;

  constexpr int blocks() const { return 1; }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p == 0) {
      double loss = 0;
      double correct = 0;
      for (std::int64_t i = place.thread; i < images; i += kBlockThreads) {
        loss += static_cast<double>(losses[i]);
        correct += static_cast<double>(hits[i]);
      }
      shared.sums[0][place.thread] = loss;
      shared.sums[1][place.thread] = correct;
      return;
    }
    if (p <= Shared::kSteps) return shared.step(p, place.thread);
    if (place.thread != 0) return;
    score[0] += shared.sums[0][0];
    score[1] += shared.sums[1][0];
    score[2] += static_cast<double>(images);
    // Zero, but no number for what is infinite or no number itself.
    if (samples != nullptr) *samples += static_cast<float>(score[0] - score[0]);
  }
};

/// The gradient of the logits as the linear layer wants it: `padded` columns, those behind the classes zero.
template <typename T>
struct PadGradient {
  std::int64_t images;
  int classes;
  int padded;
  const float* gradient;
  T* out;

  constexpr int blocks() const { return blocks_for(images * padded); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t i = number_of(place);
    if (i >= images * padded) return;
    const auto c = static_cast<int>(i % padded);
    out[i] = from_float<T>(c < classes ? gradient[i / padded * classes + c] : 0.0F);
  }
};

}  // namespace muster::nn::gpu
