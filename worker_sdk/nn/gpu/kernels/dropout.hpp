// SPDX-License-Identifier: Apache-2.0
// Dropout with the draws of the CPU (nn/draw_bits.hpp).
#pragma once

#include "worker_sdk/nn/draw_bits.hpp"
#include "worker_sdk/nn/gpu/kernels/rows.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// Writes the key of a step to where the kernels of a recorded step read it: they are replayed with the
/// arguments of the recording.
struct SetDropoutKey {
  static constexpr int kThreads = 1;

  DropoutKey key;
  DropoutKey* to;

  constexpr int blocks() const { return 1; }

  MUSTER_HD void phase(int, const Place&, Nothing&) const { *to = key; }
};

/// y = x times the factor that each element has drawn; y may be x. The gradient goes the same way. Where
/// `step` is not null, it has all but the layer, and `key` the number of the layer alone.
template <typename T>
struct DropoutRows {
  std::int64_t samples;
  std::int64_t elements;  ///< elements of a sample
  DropoutShare share;
  DropoutKey key;
  const DropoutKey* step;
  const T* x;
  T* y;

  constexpr int blocks() const { return blocks_for(samples * packs_of(elements)); }

  MUSTER_HD void phase(int, const Place& place, Nothing&) const {
    const std::int64_t sample = number_of(place) / packs_of(elements);
    const std::int64_t pack = number_of(place) % packs_of(elements);
    if (sample >= samples) return;
    const std::int64_t begin = sample * elements;
    if (elements % kPack == 0) return apply<true>(begin, sample, pack);
    apply<false>(begin, sample, pack);
  }

 private:
  template <bool kWhole>
  MUSTER_HD void apply(std::int64_t begin, std::int64_t sample, std::int64_t pack) const {
    const auto width = static_cast<int>(elements);
    const auto column = static_cast<int>(pack) * kPack;
    DropoutKey drawn = step != nullptr ? *step : key;
    drawn.layer = key.layer;
    Floats value = load_part<kWhole>(x + begin, width, column);
    for (int half = 0; half < 2; ++half) {
      const PhiloxBlock words = dropout_words(drawn, drawn.sample(static_cast<std::uint64_t>(sample)),
                                              static_cast<std::uint32_t>(2 * pack + half));
      for (int i = 0; i < 4; ++i) value.v[4 * half + i] *= share.factor(words[static_cast<unsigned>(i)]);
    }
    store_part<kWhole>(y + begin, width, column, value);
  }
};

}  // namespace muster::nn::gpu
