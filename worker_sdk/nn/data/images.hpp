// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/data/draw.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::data {

inline constexpr int kImageSide = 32;
inline constexpr int kChannels = 3;
inline constexpr int kClasses = 10;
inline constexpr std::size_t kImageBytes = std::size_t{kImageSide} * kImageSide * kChannels;

/// Labelled 32x32 colour images. Pixels are stored row by row with red, green, blue side by side, the layout
/// in which the network reads them.
struct Images {
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;

  std::size_t size() const { return labels.size(); }
};

struct ImageData {
  Images train;
  Images test;
  /// A line for people: "CIFAR-10 from DIR, subset: 10000 of 50,000 training images, 2000 test images".
  std::string description;
};

/// Mean and standard deviation of each channel, of pixels scaled to [0, 1].
struct Normalization {
  float mean[kChannels];
  float deviation[kChannels];
};

/// Mean and deviation of all pixels of the 50,000 training images of CIFAR-10, per channel.
inline constexpr Normalization kCifar10Normalization = {{0.4914F, 0.4822F, 0.4465F},
                                                        {0.2470F, 0.2435F, 0.2616F}};

/// The same means, with the mean of the deviations within each image, which is smaller. Many published
/// recipes divide by it (for example those of torchvision-style CIFAR-10 scripts); it makes inputs some 25 %
/// larger.
inline constexpr Normalization kCifar10PerImageNormalization = {{0.4914F, 0.4822F, 0.4465F},
                                                                {0.2023F, 0.1994F, 0.2010F}};

/// The normalization of one image, as numbers to multiply and add.
class Scaling {
 public:
  explicit Scaling(const Normalization& normalization);
  /// Turns kImageBytes pixels into as many floats.
  void apply(const std::uint8_t* pixels, float* out) const;

 private:
  /// A period that both the channels and the vector units divide, so that the inner loop becomes plain vector
  /// code.
  static constexpr std::size_t kPeriod = 48;
  static_assert(kImageBytes % kPeriod == 0 && kPeriod % kChannels == 0);
  std::array<float, kPeriod> scale_{};
  std::array<float, kPeriod> shift_{};
};

/// Writes kImageBytes bytes: `pixels` seen through the window of `draw`.
void apply(const Draw& draw, const std::uint8_t* pixels, std::uint8_t* out);

/// Copies the images at `indices`, each channel as (pixel / 255 - mean) / deviation, to `out`
/// (indices.size() * kImageBytes floats) and their labels to `labels`. The random crop and flip of an image
/// are a function of (seed, epoch, index) alone: neither threads nor ranks nor a resumed run change them. Any
/// thread.
void gather(const Images& images, std::span<const std::uint32_t> indices, const Normalization& normalization,
            const Augmentation& augmentation, int epoch, float* out, std::uint8_t* labels);

}  // namespace muster::data
