// SPDX-License-Identifier: Apache-2.0
// A scale and a shift for each channel, the sum with a second map, and ReLU, in one pass.
#pragma once

#include "worker_sdk/nn/gpu/kernels/partial_sums.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// Packs of a thread in the kernels that go over a map once, a block's width apart: they are of the same
/// channels, whose numbers are read once.
constexpr int kMapPacks = 4;

constexpr int map_blocks(const MapSize& map) {
  return blocks_for((map.packs() + kMapPacks - 1) / kMapPacks);
}

/// The packs of a thread. Behind the map's end it reads the last one, and writes nothing.
struct MapPlace {
  std::int64_t first = 0;
  std::int64_t count = 0;
  int channel = 0;

  MUSTER_HD MapPlace(const MapSize& map, const Place& place)
      : first(std::int64_t{place.block} * kMapPacks * kBlockThreads + place.thread),
        count(map.packs()),
        channel((place.thread & (map.channels / kPack - 1)) * kPack) {}

  MUSTER_HD std::int64_t pack(int i) const { return first + std::int64_t{i} * kBlockThreads; }

  MUSTER_HD bool exists(int i) const { return pack(i) < count; }

  MUSTER_HD std::int64_t readable(int i) const { return exists(i) ? pack(i) : count - 1; }
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

  constexpr int blocks() const { return map_blocks(map); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const MapPlace own(map, place);
    if (addend != nullptr) return apply<true>(own);
    apply<false>(own);
  }

 private:
  template <bool kAdds>
  MUSTER_HD void apply(const MapPlace& own) const {
    if (!own.exists(0)) return;
    Raw<T> raw[kMapPacks];
    Raw<T> more[kMapPacks];
    for (int k = 0; k < kMapPacks; ++k) raw[k] = fetch(x + own.readable(k) * kPack);
    if constexpr (kAdds)
      for (int k = 0; k < kMapPacks; ++k) more[k] = fetch(addend + own.readable(k) * kPack);
    const Affine first = affine_of(scale, shift, own.channel);
    const Affine second =
        kAdds ? affine_of(addend_scale, addend_scale != nullptr ? addend_shift : nullptr, own.channel)
              : Affine{};
    for (int k = 0; k < kMapPacks; ++k) {
      if (!own.exists(k)) return;
      Floats value = first.of(unpack(raw[k]));
      if constexpr (kAdds) {
        const Floats scaled = second.of(unpack(more[k]));
        for (int i = 0; i < kPack; ++i) value.v[i] += scaled.v[i];
      }
      finish(own.pack(k), value);
    }
  }

  struct Affine {
    Floats scale;
    Floats shift;

    MUSTER_HD Floats of(const Floats& x) const {
      Floats result;
      for (int i = 0; i < kPack; ++i) result.v[i] = scale.v[i] * x.v[i] + shift.v[i];
      return result;
    }
  };

  static MUSTER_HD Affine affine_of(const float* scale, const float* shift, int channel) {
    Affine result{};
    for (int i = 0; i < kPack; ++i) result.scale.v[i] = 1;
    if (scale != nullptr) result.scale = load(scale + channel);
    if (shift != nullptr) result.shift = load(shift + channel);
    return result;
  }

  MUSTER_HD void finish(std::int64_t pack, Floats& value) const {
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
};

}  // namespace muster::nn::gpu
