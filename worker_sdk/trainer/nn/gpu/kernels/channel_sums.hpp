// SPDX-License-Identifier: Apache-2.0
// Sums per channel over all pixels of a map of rows x channels: partial sums of each block first, which
// another kernel adds up in a fixed order. So the result does not depend on when which block runs.
#pragma once

#include "worker_sdk/trainer/nn/gpu/kernels/pack.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::gpu {

/// A map in memory: `rows` pixels of all images of a batch, one after the other, `channels` of each side by
/// side. Channels are a power of two from 8 to 2048.
struct MapSize {
  std::int64_t rows = 0;
  int channels = 0;

  constexpr std::int64_t packs() const { return rows * channels / kPack; }
};

/// Blocks that a map is shared among: enough for the largest device, and few enough to add up quickly.
constexpr int kMaxSumBlocks = 512;

constexpr int sum_blocks(const MapSize& map) {
  const std::int64_t rows_at_once = kBlockThreads * kPack / map.channels;
  const std::int64_t wanted = (map.rows + 8 * rows_at_once - 1) / (8 * rows_at_once);
  return wanted < 1 ? 1 : wanted > kMaxSumBlocks ? kMaxSumBlocks : static_cast<int>(wanted);
}

/// Floats that the partial sums of a map take: for each block all first sums, then all second ones.
constexpr std::size_t partial_floats(const MapSize& map) {
  return static_cast<std::size_t>(sum_blocks(map)) * 2U * static_cast<std::size_t>(map.channels);
}

/// One value for each of eight channels and thread; neighbouring threads lie in neighbouring banks.
struct SumScratch {
  float first[kPack][kBlockThreads];
  float second[kPack][kBlockThreads];

  MUSTER_HD void put(int thread, const Floats& one, const Floats& two) {
    for (int i = 0; i < kPack; ++i) {
      first[i][thread] = one.v[i];
      second[i][thread] = two.v[i];
    }
  }
};

/// The tree over the threads of a block that hold the same channels: 256 of them at most.
constexpr int kTreeSteps = 8;

/// Adds up what thread and thread + half hold, for half = lanes / 2, lanes / 4 ... ; `step` from 1.
MUSTER_HD void tree_step(int step, int packs, const Place& place, SumScratch& shared) {
  const int lanes = kBlockThreads / packs;
  const int half = lanes >> step;
  if (place.thread / packs >= half) return;
  for (int i = 0; i < kPack; ++i) {
    shared.first[i][place.thread] += shared.first[i][place.thread + half * packs];
    shared.second[i][place.thread] += shared.second[i][place.thread + half * packs];
  }
}

/// Part `p` of the body, behind the first, of a kernel whose threads have put their sums.
MUSTER_HD void finish_partials(int p, const Place& place, int channels, SumScratch& shared, float* partials) {
  if (p <= kTreeSteps) return tree_step(p, channels / kPack, place, shared);
  if (place.thread >= channels / kPack) return;
  float* first = partials + std::int64_t{place.block} * 2 * channels + place.thread * kPack;
  for (int i = 0; i < kPack; ++i) {
    first[i] = shared.first[i][place.thread];
    first[channels + i] = shared.second[i][place.thread];
  }
}

/// Sums of x - pivot and its square, where the pivot of a channel is its first value: near the mean, so that
/// the variance keeps its digits (shifted data, Chan, Golub & LeVeque, "Algorithms for Computing the Sample
/// Variance", 1983).
template <typename T>
struct Moments {
  static constexpr int kPhases = kTreeSteps + 2;
  using Shared = SumScratch;

  MapSize map;
  const T* x;
  float* partials;

  constexpr int blocks() const { return sum_blocks(map); }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p == 0) return gather(place, map.channels / kPack, shared);
    finish_partials(p, place, map.channels, shared, partials);
  }

 private:
  MUSTER_HD void gather(const Place& place, int packs, Shared& shared) const {
    const int channel = place.thread % packs * kPack;
    Floats sum{};
    Floats square{};
    const Floats pivot = map.rows > 0 ? load(x + channel) : Floats{};
    const std::int64_t lanes = kBlockThreads / packs;
    const std::int64_t stride = lanes * blocks();
    for (std::int64_t row = place.block * lanes + place.thread / packs; row < map.rows; row += stride) {
      const Floats value = load(x + row * map.channels + channel);
      for (int i = 0; i < kPack; ++i) {
        const float distance = value.v[i] - pivot.v[i];
        sum.v[i] += distance;
        square.v[i] += distance * distance;
      }
    }
    shared.put(place.thread, sum, square);
  }
};

/// The gradient g of a sum before its ReLU: dy, plus dy2 where not null, where the bit of `signs` is set
/// (null: everywhere).
template <typename T>
struct MaskedGradient {
  const T* dy;
  const T* dy2;
  const std::uint8_t* signs;

  /// Pack number `pack` of the map.
  MUSTER_HD Floats at(std::int64_t pack) const {
    Floats g = load(dy + pack * kPack);
    if (dy2 != nullptr) {
      const Floats more = load(dy2 + pack * kPack);
      for (int i = 0; i < kPack; ++i) g.v[i] += more.v[i];
    }
    if (signs != nullptr) {
      const unsigned bits = signs[pack];
      for (int i = 0; i < kPack; ++i) g.v[i] = (bits >> i & 1U) != 0 ? g.v[i] : 0.0F;
    }
    return g;
  }
};

/// Sums of g and of g * (x - mean); without x the second sum is 0. Writes g to `out`, where not null (which
/// may be where g comes from).
template <typename T>
struct GradientSums {
  static constexpr int kPhases = kTreeSteps + 2;
  using Shared = SumScratch;

  MapSize map;
  MaskedGradient<T> gradient;
  const T* x;
  const float* mean;
  T* out;
  float* partials;

  constexpr int blocks() const { return sum_blocks(map); }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p == 0) return gather(place, map.channels / kPack, shared);
    finish_partials(p, place, map.channels, shared, partials);
  }

 private:
  MUSTER_HD void gather(const Place& place, int packs, Shared& shared) const {
    const int own = place.thread % packs;
    Floats sum{};
    Floats product{};
    Floats centre{};
    if (x != nullptr) centre = load(mean + own * kPack);
    const std::int64_t lanes = kBlockThreads / packs;
    const std::int64_t stride = lanes * blocks();
    for (std::int64_t row = place.block * lanes + place.thread / packs; row < map.rows; row += stride) {
      const std::int64_t pack = row * packs + own;
      const Floats g = gradient.at(pack);
      for (int i = 0; i < kPack; ++i) sum.v[i] += g.v[i];
      if (x != nullptr) {
        const Floats value = load(x + pack * kPack);
        for (int i = 0; i < kPack; ++i) product.v[i] += g.v[i] * (value.v[i] - centre.v[i]);
      }
      if (out != nullptr) store(out + pack * kPack, g);
    }
    shared.put(place.thread, sum, product);
  }
};

/// A block's work on the partial sums of eight channels, in double: 32 threads for each channel.
struct FinishScratch {
  double first[kBlockThreads];
  double second[kBlockThreads];
};

constexpr int kFinishLanes = kBlockThreads / kPack;
constexpr int kFinishSteps = 5;
static_assert(1 << kFinishSteps == kFinishLanes);

/// Part `p` of adding up: 0 to kFinishSteps. Then thread c < 8 holds the sums of channel 8 * block + c.
MUSTER_HD void finish_step(int p, const Place& place, int channels, int count, const float* partials,
                           FinishScratch& shared) {
  const int lane = place.thread / kPack;
  if (p == 0) {
    const int channel = place.block * kPack + place.thread % kPack;
    double first = 0;
    double second = 0;
    for (int block = lane; block < count; block += kFinishLanes) {
      const float* from = partials + std::int64_t{block} * 2 * channels + channel;
      first += static_cast<double>(from[0]);
      second += static_cast<double>(from[channels]);
    }
    shared.first[place.thread] = first;
    shared.second[place.thread] = second;
    return;
  }
  const int half = kFinishLanes >> p;
  if (lane >= half) return;
  shared.first[place.thread] += shared.first[place.thread + half * kPack];
  shared.second[place.thread] += shared.second[place.thread + half * kPack];
}

}  // namespace muster::nn::gpu
