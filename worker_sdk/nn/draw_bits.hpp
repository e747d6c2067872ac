// SPDX-License-Identifier: Apache-2.0
// Which elements dropout keeps (Srivastava et al., "Dropout", 2014): a pure function of the place of an
// element in the training, so that backward and a second forward draw the same again, and a batch may be
// split over ranks and micro-batches in any way. Pure and constexpr: kernels of GPUs compute the same draws.
#pragma once

#include "rendezvous/base/philox.hpp"

#include <cstdint>

namespace muster::nn {

/// What the draws of one dropout layer in one step depend on.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;    ///< below 2^32
  std::uint64_t first = 0;   ///< number of the batch's first sample in the step, over all ranks; below 2^32
  std::uint32_t layer = 0;   ///< number of the layer in the network, below 2^24
  std::uint64_t stride = 1;  ///< from the number of one sample of the batch to that of the next

  /// The number in the step of the sample at that place in the batch; below 2^32.
  constexpr std::uint64_t sample(std::uint64_t place) const { return first + place * stride; }
};

/// Keeps these streams apart from those of other users of the same seed, as the highest byte of a counter.
inline constexpr std::uint32_t kDropoutStreams = std::uint32_t{0x44} << 24;

/// The random words of the elements 4 * quad, ... 4 * quad + 3 of one sample, whose number in the step is
/// `sample` (DropoutKey::sample()). Elements are counted token by token.
constexpr PhiloxBlock dropout_words(const DropoutKey& key, std::uint64_t sample, std::uint32_t quad) {
  return philox4x32({quad, static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(key.step),
                     kDropoutStreams | key.layer},
                    key.seed);
}

/// The share of elements that a layer drops, ready for its loops.
struct DropoutShare {
  std::uint32_t limit = 0;  ///< elements whose word is below it are dropped
  float scale = 1;          ///< of those that are kept: the sum of many is then as without dropout

  /// `share` is from 0 to below 1.
  static constexpr DropoutShare of(double share) {
    return {static_cast<std::uint32_t>(share * 0x1p32), static_cast<float>(1 / (1 - share))};
  }

  /// What an element is multiplied by. (Multiplied, not replaced: what is not a number must stay so.)
  constexpr float factor(std::uint32_t word) const { return word < limit ? 0.0F : scale; }
};

}  // namespace muster::nn
