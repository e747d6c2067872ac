// SPDX-License-Identifier: Apache-2.0
// Sums per channel that batch norms and biases need, forward and backward.
#pragma once

#include "worker_sdk/nn/gpu/kernels/partial_sums.hpp"

#include <cstdint>
#include <type_traits>

namespace muster::nn::gpu {

/// Sums of x - pivot and its square, where the pivot of a channel is its first value: near the mean, so that
/// the variance keeps its digits (shifted data, Chan, Golub & LeVeque, "Algorithms for Computing the Sample
/// Variance", 1983). `finish` gets both of each channel.
template <typename T, typename Finish>
struct Moments {
  static constexpr int kPhases = 1 + kPartialPhases + kFinishPhases;
  using Shared = SumShared;

  MapSize map;
  const T* x;
  float* partials;
  Finish finish;

  constexpr int blocks() const {
    const SumShape shape = sum_shape(map);
    return shape.groups * shape.blocks;
  }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p == 0) return gather(place, shared.own);
    if (p <= kPartialPhases) return leave_partials(p, place, map, shared, partials);
    finish_last(p - kPartialPhases - 1, place, map, shared, partials, finish);
  }

 private:
  struct Sums {
    const T* from;
    int channels;
    Floats pivot;
    Floats sum;
    Floats square;

    MUSTER_HD Raw<T> fetch(std::int64_t row) const { return gpu::fetch(from + row * channels); }

    MUSTER_HD void add(std::int64_t, const Raw<T>& raw) {
      const Floats value = unpack(raw);
      for (int i = 0; i < kPack; ++i) {
        const float distance = value.v[i] - pivot.v[i];
        sum.v[i] += distance;
        square.v[i] += distance * distance;
      }
    }
  };

  MUSTER_HD void gather(const Place& place, SumScratch& shared) const {
    const SumPlace own = sum_place(map, place);
    const T* const from = x + own.channel;
    Sums sums = {from, map.channels, map.rows > 0 ? load(from) : Floats{}, {}, {}};
    fetch_ahead<2 * rows_at_once<T>()>(own.first, own.stride, map.rows, sums);
    shared.put(place.thread, sums.sum, sums.square);
  }
};

/// The gradient g of a sum before its ReLU: dy where the bit of `signs` is set (null: everywhere), of which a
/// second part dy2 may be added before (not without signs).
template <typename T>
struct MaskedGradient {
  const T* dy;
  const T* dy2;
  const std::uint8_t* signs;
};

/// The forms of a gradient. Loops are compiled for each, so that no load waits for a test.
enum class GradientForm : std::uint8_t { plain, masked, masked_sum };

template <typename T>
struct RawGradient {
  Raw<T> dy;
  Raw<T> dy2;
  unsigned signs;
};

/// Pack number `pack` of the map.
template <GradientForm kForm, typename T>
MUSTER_HD RawGradient<T> fetch(const MaskedGradient<T>& gradient, std::int64_t pack) {
  RawGradient<T> raw;
  raw.dy = fetch(gradient.dy + pack * kPack);
  if constexpr (kForm == GradientForm::masked_sum) raw.dy2 = fetch(gradient.dy2 + pack * kPack);
  if constexpr (kForm != GradientForm::plain) raw.signs = gradient.signs[pack];
  return raw;
}

template <GradientForm kForm, typename T>
MUSTER_HD Floats unpack(const RawGradient<T>& raw) {
  Floats g = unpack(raw.dy);
  if constexpr (kForm == GradientForm::masked_sum) {
    const Floats more = unpack(raw.dy2);
    for (int i = 0; i < kPack; ++i) g.v[i] += more.v[i];
  }
  if constexpr (kForm != GradientForm::plain)
    for (int i = 0; i < kPack; ++i) g.v[i] = (raw.signs >> i & 1U) != 0 ? g.v[i] : 0.0F;
  return g;
}

/// The sums stay in pieces, for a kernel that follows.
struct NoFinish {};

/// Sums of g and of g * (x - mean); without x the second sum is 0. Writes g to `out`, where not null (which
/// may be where g comes from).
template <typename T, typename Finish = NoFinish>
struct GradientSums {
  static constexpr bool kFinishes = !std::is_same_v<Finish, NoFinish>;
  static constexpr int kPhases = 1 + kPartialPhases + (kFinishes ? kFinishPhases : 0);
  using Shared = SumShared;

  MapSize map;
  MaskedGradient<T> gradient;
  const T* x;
  const float* mean;
  T* out;
  float* partials;
  Finish finish = {};

  constexpr int blocks() const {
    const SumShape shape = sum_shape(map);
    return shape.groups * shape.blocks;
  }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (p == 0) return gather(place, shared.own);
    if (p <= kPartialPhases) return leave_partials(p, place, map, shared, partials);
    if constexpr (kFinishes) finish_last(p - kPartialPhases - 1, place, map, shared, partials, finish);
  }

 private:
  template <GradientForm kForm, bool kProducts>
  struct Sums {
    struct Fetched {
      RawGradient<T> gradient;
      Raw<T> x;
    };

    const GradientSums& all;
    int packs;
    int pack;
    Floats centre;
    Floats sum;
    Floats product;

    MUSTER_HD Fetched fetch(std::int64_t row) const {
      Fetched fetched;
      fetched.gradient = gpu::fetch<kForm>(all.gradient, row * packs + pack);
      if constexpr (kProducts) fetched.x = gpu::fetch(all.x + (row * packs + pack) * kPack);
      return fetched;
    }

    MUSTER_HD void add(std::int64_t row, const Fetched& fetched) {
      const Floats g = unpack<kForm>(fetched.gradient);
      for (int i = 0; i < kPack; ++i) sum.v[i] += g.v[i];
      if constexpr (kProducts) {
        const Floats value = unpack(fetched.x);
        for (int i = 0; i < kPack; ++i) product.v[i] += g.v[i] * (value.v[i] - centre.v[i]);
      }
      if (all.out != nullptr) store(all.out + (row * packs + pack) * kPack, g);
    }
  };

  template <GradientForm kForm, bool kProducts>
  MUSTER_HD void sum(const Place& place, SumScratch& shared) const {
    const SumPlace own = sum_place(map, place);
    Sums<kForm, kProducts> sums = {*this, map.channels / kPack, own.channel / kPack, {}, {}, {}};
    if constexpr (kProducts) sums.centre = load(mean + own.channel);
    fetch_ahead<rows_at_once<T>()>(own.first, own.stride, map.rows, sums);
    shared.put(place.thread, sums.sum, sums.product);
  }

  template <GradientForm kForm>
  MUSTER_HD void sum_as(const Place& place, SumScratch& shared) const {
    if (x != nullptr) return sum<kForm, true>(place, shared);
    sum<kForm, false>(place, shared);
  }

  MUSTER_HD void gather(const Place& place, SumScratch& shared) const {
    if (gradient.signs == nullptr) return sum_as<GradientForm::plain>(place, shared);
    if (gradient.dy2 == nullptr) return sum_as<GradientForm::masked>(place, shared);
    sum_as<GradientForm::masked_sum>(place, shared);
  }
};

}  // namespace muster::nn::gpu
