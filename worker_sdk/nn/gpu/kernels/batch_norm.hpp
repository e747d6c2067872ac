// SPDX-License-Identifier: Apache-2.0
// Batch norm over the channels of a map: Ioffe and Szegedy, "Batch Normalization", 2015, with PyTorch's
// epsilon 1e-5 and momentum 0.1. The same formulas as the CPU's (nn/cpu/batch_norm.cpp).
#pragma once

#include "worker_sdk/nn/gpu/kernels/channel_sums.hpp"
#include "worker_sdk/nn/gpu/kernels/scale_add_relu.hpp"

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

/// Batch norm over the images of all ranks: the kernel that sums gives this rank's sums, which are then added
/// up over the ranks; another one takes the totals. Sums are doubles, as on the CPU.
enum class Turn : std::uint8_t { alone, give };

/// Makes statistics of the sums of Moments, and moves the running ones. As a kernel: of the totals.
template <typename T>
struct NormStatistics {
  MapSize map;
  const T* x;  ///< its first pixel is the pivot
  NormTensors tensors;
  NormState state;
  Turn turn = Turn::alone;
  double* totals = nullptr;  ///< sums, sums of squares, then the number of pixels

  constexpr int blocks() const { return blocks_for(map.channels); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const auto c = static_cast<int>(number_of(place));
    const double count = totals[std::int64_t{2} * map.channels];
    if (c >= map.channels || !(count > 0)) return;
    const double mean = totals[c] / count;
    use(c, count, mean, totals[map.channels + c] / count - mean * mean);
  }

  /// Of the sums of x - pivot and of their squares.
  MUSTER_HD void operator()(int c, double shifted, double squares) const {
    const auto count = static_cast<double>(map.rows);
    const double pivot = map.rows > 0 ? static_cast<double>(to_float(x[c])) : 0.0;
    if (turn == Turn::give) {
      totals[c] = shifted + count * pivot;
      totals[map.channels + c] = squares + 2 * pivot * shifted + count * pivot * pivot;
      if (c == 0) totals[std::int64_t{2} * map.channels] = count;
      return;
    }
    if (!(count > 0)) return;
    const double distance = shifted / count;
    use(c, count, pivot + distance, squares / count - distance * distance);
  }

 private:
  MUSTER_HD void use(int c, double count, double mean, double raw) const {
    const double variance = raw < 0 ? 0 : raw;
    const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
    move(tensors.running_mean[c], mean);
    move(tensors.running_variance[c], unbiased);
    use_statistics(c, mean, variance, tensors, state);
  }

  static MUSTER_HD void move(float& running, double now) {
    running = static_cast<float>((1 - kNormMomentum) * static_cast<double>(running) + kNormMomentum * now);
  }
};

template <typename T>
using NormMoments = Moments<T, NormStatistics<T>>;

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

/// Makes, of the sums of GradientSums, the gradients of weight and bias, as sums over the samples, and what
/// NormBackward needs: section 3 of the paper, dx = weight / deviation * (g - mean(g) - xhat * mean(g *
/// xhat)). As a kernel: the latter, of the totals.
struct NormGradients {
  MapSize map;
  const float* weight;
  NormState state;
  float* weight_gradient;
  float* bias_gradient;
  Turn turn = Turn::alone;
  double* totals = nullptr;        ///< both sums
  const double* pixels = nullptr;  ///< pixels of all ranks

  constexpr int blocks() const { return blocks_for(map.channels); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const auto c = static_cast<int>(number_of(place));
    if (c < map.channels) use(c, totals[c], totals[map.channels + c], *pixels);
  }

  MUSTER_HD void operator()(int c, double sum, double product) const {
    // Of this rank's samples: they are summed over the ranks with all gradients.
    weight_gradient[c] = static_cast<float>(product * static_cast<double>(state.inverse[c]));
    bias_gradient[c] = static_cast<float>(sum);
    if (turn == Turn::alone) return use(c, sum, product, static_cast<double>(map.rows));
    totals[c] = sum;
    totals[map.channels + c] = product;
  }

 private:
  MUSTER_HD void use(int c, double sum, double product, double count) const {
    if (!(count > 0)) return;
    const auto inverse = static_cast<double>(state.inverse[c]);
    const double factor = static_cast<double>(weight[c]) * inverse;
    const double by_x = -factor * inverse * inverse * product / count;
    state.by_gradient[c] = static_cast<float>(factor);
    state.by_x[c] = static_cast<float>(by_x);
    state.constant[c] = static_cast<float>(-factor * sum / count - by_x * static_cast<double>(state.mean[c]));
  }
};

template <typename T>
using NormGradientSums = GradientSums<T, NormGradients>;

/// The gradient of x, which may be written where x is.
template <typename T>
struct NormBackward {
  MapSize map;
  MaskedGradient<T> gradient;
  const T* x;
  NormState state;
  T* dx;

  constexpr int blocks() const { return map_blocks(map); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const MapPlace own(map, place);
    if (gradient.signs == nullptr) return apply<GradientForm::plain>(own);
    if (gradient.dy2 == nullptr) return apply<GradientForm::masked>(own);
    apply<GradientForm::masked_sum>(own);
  }

 private:
  template <GradientForm kForm>
  MUSTER_HD void apply(const MapPlace& own) const {
    if (!own.exists(0)) return;
    RawGradient<T> gradients[kMapPacks];
    Raw<T> values[kMapPacks];
    for (int k = 0; k < kMapPacks; ++k) {
      gradients[k] = fetch<kForm>(gradient, own.readable(k));
      values[k] = fetch(x + own.readable(k) * kPack);
    }
    const Floats a = load(state.by_gradient + own.channel);
    const Floats b = load(state.by_x + own.channel);
    const Floats c = load(state.constant + own.channel);
    for (int k = 0; k < kMapPacks; ++k) {
      if (!own.exists(k)) return;
      const Floats g = unpack<kForm>(gradients[k]);
      const Floats value = unpack(values[k]);
      Floats result;
      for (int i = 0; i < kPack; ++i) result.v[i] = a.v[i] * g.v[i] + (b.v[i] * value.v[i] + c.v[i]);
      store(dx + own.pack(k) * kPack, result);
    }
  }
};

/// The gradient of a bias from the partial sums of GradientSums; `count` of the channels are the layer's, the
/// others are padding.
struct BiasGradient {
  static constexpr int kPhases = kFinishSteps + 2;
  using Shared = FinishScratch;

  MapSize map;
  float* partials;
  int count;
  float* bias_gradient;

  constexpr int blocks() const { return sum_shape(map).groups; }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    const SumShape shape = sum_shape(map);
    if (p <= kFinishSteps)
      return finish_step(p, place.thread, shape, partials_of_group(shape, place.block, partials), shared);
    hand_over(place.thread, shape, place.block, shared, [this](int c, double sum, double) {
      if (c < count) bias_gradient[c] = static_cast<float>(sum);
    });
  }
};

}  // namespace muster::nn::gpu
