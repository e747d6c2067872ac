// SPDX-License-Identifier: Apache-2.0
// Batch norm over the channels of a map, ReLU, and the sum with a second map: Ioffe and Szegedy, "Batch
// Normalization", 2015, with PyTorch's epsilon 1e-5 and momentum 0.1. The same formulas as the CPU's
// (nn/cpu/batch_norm.cpp).
#pragma once

#include "worker_sdk/trainer/nn/gpu/kernels/channel_sums.hpp"

#include <cmath>

namespace muster::nn::gpu {

constexpr double kNormEpsilon = 1e-5;
constexpr double kNormMomentum = 0.1;

/// The numbers that a batch norm keeps between forward and backward: as many floats as channels behind each
/// pointer.
struct NormState {
  float* mean;
  float* inverse;  ///< 1 / sqrt(variance + epsilon)
  float* scale;    ///< y = scale * x + shift
  float* shift;
  float* by_gradient;  ///< dx = by_gradient * g + by_x * x + constant
  float* by_x;
  float* constant;
};

/// The parameters and running statistics of a batch norm.
struct NormTensors {
  const float* weight;
  const float* bias;
  float* running_mean;
  float* running_variance;
};

MUSTER_HD void use_statistics(int c, double mean, double variance, const NormTensors& tensors,
                              const NormState& state) {
  const double inverse = 1.0 / sqrt(variance + kNormEpsilon);
  const double scale = static_cast<double>(tensors.weight[c]) * inverse;
  state.mean[c] = static_cast<float>(mean);
  state.inverse[c] = static_cast<float>(inverse);
  state.scale[c] = static_cast<float>(scale);
  state.shift[c] = static_cast<float>(static_cast<double>(tensors.bias[c]) - mean * scale);
}

/// Batch norm over the images of all ranks: one kernel gives this rank's sums, which are then added up over
/// the ranks, and the same kernel takes the totals. Sums are doubles, as on the CPU.
enum class Turn : std::uint8_t { alone, give, take };

/// Makes statistics of the partial sums of Moments, and moves the running ones.
template <typename T>
struct NormStatistics {
  static constexpr int kPhases = kFinishSteps + 2;
  using Shared = FinishScratch;

  MapSize map;
  const T* x;  ///< its first pixel is the pivot
  const float* partials;
  NormTensors tensors;
  NormState state;
  Turn turn = Turn::alone;
  double* totals = nullptr;  ///< sums, sums of squares, then the number of pixels

  constexpr int blocks() const { return map.channels / kPack; }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p <= kFinishSteps) {
      if (turn != Turn::take) finish_step(p, place, map.channels, sum_blocks(map), partials, shared);
      return;
    }
    if (place.thread >= kPack) return;
    const int c = place.block * kPack + place.thread;
    if (turn == Turn::give) return give(c, shared.first[place.thread], shared.second[place.thread]);
    const double count =
        turn == Turn::take ? totals[std::int64_t{2} * map.channels] : static_cast<double>(map.rows);
    if (!(count > 0)) return;
    double mean = 0;
    double raw = 0;
    if (turn == Turn::take) {
      mean = totals[c] / count;
      raw = totals[map.channels + c] / count - mean * mean;
    } else {
      const double shifted = shared.first[place.thread] / count;
      mean = static_cast<double>(to_float(x[c])) + shifted;
      raw = shared.second[place.thread] / count - shifted * shifted;
    }
    const double variance = raw < 0 ? 0 : raw;
    const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
    move(tensors.running_mean[c], mean);
    move(tensors.running_variance[c], unbiased);
    use_statistics(c, mean, variance, tensors, state);
  }

 private:
  MUSTER_HD void give(int c, double shifted, double squares) const {
    const auto count = static_cast<double>(map.rows);
    const double pivot = map.rows > 0 ? static_cast<double>(to_float(x[c])) : 0.0;
    totals[c] = shifted + count * pivot;
    totals[map.channels + c] = squares + 2 * pivot * shifted + count * pivot * pivot;
    if (c == 0) totals[std::int64_t{2} * map.channels] = count;
  }

  static MUSTER_HD void move(float& running, double now) {
    running = static_cast<float>((1 - kNormMomentum) * static_cast<double>(running) + kNormMomentum * now);
  }
};

/// Takes the running statistics, for an evaluation.
struct NormRunning {
  int channels;
  NormTensors tensors;
  NormState state;

  constexpr int blocks() const { return blocks_for(channels); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const auto c = static_cast<int>(number_of(place));
    if (c >= channels) return;
    use_statistics(c, static_cast<double>(tensors.running_mean[c]),
                   static_cast<double>(tensors.running_variance[c]), tensors, state);
  }
};

/// y = max(0, scale * x + shift + addend); a null scale is 1, a null addend 0. The addend is scaled and
/// shifted first where it has a scale. A byte of `signs` (null: evaluation) has a bit for each positive
/// element of a pack.
template <typename T>
struct ScaleAddRelu {
  MapSize map;
  const T* x;
  const float* scale;
  const float* shift;
  const T* addend;
  const float* addend_scale;
  const float* addend_shift;
  T* y;
  std::uint8_t* signs;

  constexpr int blocks() const { return blocks_for(map.packs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t pack = number_of(place);
    if (pack >= map.packs()) return;
    const auto channel = static_cast<int>(pack % (map.channels / kPack)) * kPack;
    Floats value = affine(load(x + pack * kPack), scale, shift, channel);
    if (addend != nullptr) {
      Floats more = load(addend + pack * kPack);
      if (addend_scale != nullptr) more = affine(more, addend_scale, addend_shift, channel);
      for (int i = 0; i < kPack; ++i) value.v[i] += more.v[i];
    }
    unsigned bits = 0;
    for (int i = 0; i < kPack; ++i) {
      // What is not a number passes, so that it is not hidden from the loss.
      const bool passes = !(value.v[i] <= 0);
      bits |= (passes ? 1U : 0U) << i;
      value.v[i] = passes ? value.v[i] : 0.0F;
    }
    store(y + pack * kPack, value);
    if (signs != nullptr) signs[pack] = static_cast<std::uint8_t>(bits);
  }

 private:
  static MUSTER_HD Floats affine(const Floats& x, const float* scale, const float* shift, int channel) {
    const Floats b = load(shift + channel);
    Floats result;
    if (scale == nullptr) {
      for (int i = 0; i < kPack; ++i) result.v[i] = x.v[i] + b.v[i];
      return result;
    }
    const Floats a = load(scale + channel);
    for (int i = 0; i < kPack; ++i) result.v[i] = a.v[i] * x.v[i] + b.v[i];
    return result;
  }
};

/// Makes, of the partial sums of GradientSums, the gradients of weight and bias, as sums over the samples,
/// and what NormBackward needs: section 3 of the paper, dx = weight / deviation * (g - mean(g) - xhat *
/// mean(g * xhat)).
struct NormGradients {
  static constexpr int kPhases = kFinishSteps + 2;
  using Shared = FinishScratch;

  MapSize map;
  const float* partials;
  const float* weight;
  NormState state;
  float* weight_gradient;
  float* bias_gradient;
  Turn turn = Turn::alone;
  double* totals = nullptr;        ///< both sums
  const double* pixels = nullptr;  ///< pixels of all ranks

  constexpr int blocks() const { return map.channels / kPack; }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p <= kFinishSteps) {
      if (turn != Turn::take) finish_step(p, place, map.channels, sum_blocks(map), partials, shared);
      return;
    }
    if (place.thread >= kPack) return;
    const int c = place.block * kPack + place.thread;
    const auto inverse = static_cast<double>(state.inverse[c]);
    const double sum = turn == Turn::take ? totals[c] : shared.first[place.thread];
    const double product = turn == Turn::take ? totals[map.channels + c] : shared.second[place.thread];
    if (turn != Turn::take) {
      // Of this rank's samples: they are summed over the ranks with all gradients.
      weight_gradient[c] = static_cast<float>(product * inverse);
      bias_gradient[c] = static_cast<float>(sum);
    }
    if (turn == Turn::give) {
      totals[c] = sum;
      totals[map.channels + c] = product;
      return;
    }
    const double count = turn == Turn::take ? *pixels : static_cast<double>(map.rows);
    if (!(count > 0)) return;
    const double factor = static_cast<double>(weight[c]) * inverse;
    const double by_x = -factor * inverse * inverse * product / count;
    state.by_gradient[c] = static_cast<float>(factor);
    state.by_x[c] = static_cast<float>(by_x);
    state.constant[c] = static_cast<float>(-factor * sum / count - by_x * static_cast<double>(state.mean[c]));
  }
};

/// The gradient of x, which may be written where x is.
template <typename T>
struct NormBackward {
  MapSize map;
  MaskedGradient<T> gradient;
  const T* x;
  NormState state;
  T* dx;

  constexpr int blocks() const { return blocks_for(map.packs()); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t pack = number_of(place);
    if (pack >= map.packs()) return;
    const auto channel = static_cast<int>(pack % (map.channels / kPack)) * kPack;
    const Floats g = gradient.at(pack);
    const Floats value = load(x + pack * kPack);
    const Floats a = load(state.by_gradient + channel);
    const Floats b = load(state.by_x + channel);
    const Floats c = load(state.constant + channel);
    Floats result;
    for (int i = 0; i < kPack; ++i) result.v[i] = a.v[i] * g.v[i] + (b.v[i] * value.v[i] + c.v[i]);
    store(dx + pack * kPack, result);
  }
};

/// The gradient of a bias from the partial sums of GradientSums; `count` of the channels are the layer's, the
/// others are padding.
struct BiasGradient {
  static constexpr int kPhases = kFinishSteps + 2;
  using Shared = FinishScratch;

  MapSize map;
  const float* partials;
  int count;
  float* bias_gradient;

  constexpr int blocks() const { return map.channels / kPack; }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p <= kFinishSteps) return finish_step(p, place, map.channels, sum_blocks(map), partials, shared);
    const int c = place.block * kPack + place.thread;
    if (place.thread >= kPack || c >= count) return;
    bias_gradient[c] = static_cast<float>(shared.first[place.thread]);
  }
};

}  // namespace muster::nn::gpu
