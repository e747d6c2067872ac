// SPDX-License-Identifier: Apache-2.0
// How one training image is changed at random. Pure and constexpr: kernels of GPUs compute the same draws.
#pragma once

#include "rendezvous/base/philox.hpp"

#include <cstdint>

namespace muster::data {

struct Augmentation {
  /// Black pixels added on every side before a window of the image's own size is cut out at random; 0: no
  /// crop. At most 16. The usual recipe for CIFAR-10 has 4 (He et al., "Deep Residual Learning",
  /// section 4.2).
  int crop_padding = 0;
  /// Left and right exchanged, for half of the images.
  bool flip = false;
  std::uint64_t seed = 0;
};

struct Draw {
  int down = 0;   ///< rows by which the window lies lower than the image, negative: higher
  int right = 0;  ///< columns by which it lies further to the right
  bool flip = false;
};

/// Keeps the streams of images apart from those of other users of the same seed.
inline constexpr std::uint64_t kAugmentStreams = std::uint64_t{0x41} << 56;

/// The draw for image `index` in `epoch`.
constexpr Draw draw_for(const Augmentation& augmentation, int epoch, std::uint32_t index) {
  Draw draw;
  if (augmentation.crop_padding == 0 && !augmentation.flip) return draw;
  RandomStream random(augmentation.seed, kAugmentStreams | (static_cast<std::uint64_t>(epoch) << 32) | index);
  const auto places = static_cast<std::uint32_t>(2 * augmentation.crop_padding + 1);
  // All three are drawn whatever is wanted, so that the flip of an image does not depend on the crop.
  draw.down = static_cast<int>(random.below(places)) - augmentation.crop_padding;
  draw.right = static_cast<int>(random.below(places)) - augmentation.crop_padding;
  draw.flip = random.below(2) == 1 && augmentation.flip;
  return draw;
}

}  // namespace muster::data
