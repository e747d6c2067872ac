// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/muster_train/data/synthetic.hpp"

#include "rendezvous/base/philox.hpp"

#include <algorithm>
#include <array>

namespace muster::data {
namespace {

constexpr std::uint32_t kCell = 8;  ///< pixels per side of one patch of a pattern
constexpr std::uint32_t kCells = kImageSide / kCell;

using Pattern = std::array<int, std::size_t{kCells} * kCells * kChannels>;

// One block of streams per purpose, so that they never share random numbers.
constexpr std::uint64_t kPatternStreams = std::uint64_t{1} << 56;
constexpr std::uint64_t kTrainStreams = std::uint64_t{2} << 56;
constexpr std::uint64_t kTestStreams = std::uint64_t{3} << 56;

std::array<Pattern, kClasses> make_patterns(std::uint64_t seed) {
  std::array<Pattern, kClasses> patterns{};
  for (std::size_t c = 0; c < kClasses; ++c) {
    RandomStream random(seed, kPatternStreams | c);
    for (int& level : patterns[c]) level = static_cast<int>(random.below(128)) - 64;
  }
  return patterns;
}

/// Level of a pattern at a pixel; patterns repeat beyond their edges.
int level_at(const Pattern& pattern, std::uint32_t y, std::uint32_t x, std::uint32_t channel) {
  const std::uint32_t row = (y / kCell) % kCells;
  const std::uint32_t column = (x / kCell) % kCells;
  return pattern[(row * kCells + column) * kChannels + channel];
}

/// Sum of four uniform bytes around zero: close to normal, deviation 148.
int noise(RandomStream& random) {
  const std::uint32_t word = random.next();
  return static_cast<int>((word & 255U) + ((word >> 8) & 255U) + ((word >> 16) & 255U) + (word >> 24)) - 510;
}

void draw(const std::array<Pattern, kClasses>& patterns, std::size_t label, RandomStream& random,
          std::uint8_t* pixels) {
  const Pattern& own = patterns[label];
  const Pattern& other = patterns[(label + 1 + random.below(kClasses - 1)) % kClasses];
  const std::uint32_t shift_y = random.below(kCell);
  const std::uint32_t shift_x = random.below(kCell);
  const int mix = static_cast<int>(random.below(45));  // percent of the other class's pattern
  for (std::uint32_t y = 0; y < kImageSide; ++y)
    for (std::uint32_t x = 0; x < kImageSide; ++x)
      for (std::uint32_t c = 0; c < kChannels; ++c) {
        const int mixed = (level_at(own, y + shift_y, x + shift_x, c) * (100 - mix) +
                           level_at(other, y + shift_x, x + shift_y, c) * mix) /
                          100;
        *pixels++ = static_cast<std::uint8_t>(std::clamp(128 + mixed + noise(random) / 3, 0, 255));
      }
}

Images make_images(const std::array<Pattern, kClasses>& patterns, std::size_t count, std::uint64_t seed,
                   std::uint64_t streams) {
  Images images;
  images.labels.resize(count);
  images.pixels.resize(count * kImageBytes);
  for (std::size_t i = 0; i < count; ++i) {
    RandomStream random(seed, streams | i);
    images.labels[i] = static_cast<std::uint8_t>(i % kClasses);
    draw(patterns, i % kClasses, random, images.pixels.data() + i * kImageBytes);
  }
  return images;
}

}  // namespace

ImageData make_synthetic(const SyntheticOptions& options) {
  const auto patterns = make_patterns(options.seed);
  ImageData data;
  data.train = make_images(patterns, options.train_images, options.seed, kTrainStreams);
  data.test = make_images(patterns, options.test_images, options.seed, kTestStreams);
  data.description = "synthetic set, " + std::to_string(options.train_images) + " training images, " +
                     std::to_string(options.test_images) + " test images";
  return data;
}

}  // namespace muster::data
