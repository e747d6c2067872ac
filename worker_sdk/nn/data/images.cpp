// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/data/images.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace muster::data {
namespace {

constexpr std::size_t kRowBytes = std::size_t{kImageSide} * kChannels;

void flip_rows(std::uint8_t* pixels) {
  for (int row = 0; row < kImageSide; ++row, pixels += kRowBytes)
    for (std::size_t left = 0, right = kImageSide - 1; left < right; ++left, --right)
      std::swap_ranges(pixels + left * kChannels, pixels + (left + 1) * kChannels,
                       pixels + right * kChannels);
}

}  // namespace

Scaling::Scaling(const Normalization& normalization) {
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const std::size_t channel = i % kChannels;
    scale_[i] = 1.0F / (255.0F * normalization.deviation[channel]);
    shift_[i] = -normalization.mean[channel] / normalization.deviation[channel];
  }
}

void Scaling::apply(const std::uint8_t* pixels, float* out) const {
  for (std::size_t start = 0; start < kImageBytes; start += kPeriod, out += kPeriod)
    for (std::size_t i = 0; i < kPeriod; ++i)
      out[i] = static_cast<float>(pixels[start + i]) * scale_[i] + shift_[i];
}

void apply(const Draw& draw, const std::uint8_t* pixels, std::uint8_t* out) {
  const auto shift = static_cast<std::size_t>(std::abs(draw.right)) * kChannels;
  const std::size_t kept = kRowBytes - shift;
  for (int row = 0; row < kImageSide; ++row) {
    std::uint8_t* target = out + static_cast<std::size_t>(row) * kRowBytes;
    const int from = row + draw.down;
    if (from < 0 || from >= kImageSide) {
      std::memset(target, 0, kRowBytes);
      continue;
    }
    const std::uint8_t* source = pixels + static_cast<std::size_t>(from) * kRowBytes;
    if (draw.right >= 0) {
      std::memcpy(target, source + shift, kept);
      std::memset(target + kept, 0, shift);
    } else {
      std::memset(target, 0, shift);
      std::memcpy(target + shift, source, kept);
    }
  }
  if (draw.flip) flip_rows(out);
}

void gather(const Images& images, std::span<const std::uint32_t> indices, const Normalization& normalization,
            const Augmentation& augmentation, int epoch, float* out, std::uint8_t* labels) {
  const Scaling scaling(normalization);
  const bool changes = augmentation.crop_padding != 0 || augmentation.flip;
  std::array<std::uint8_t, kImageBytes> changed{};
  for (std::size_t n = 0; n < indices.size(); ++n, out += kImageBytes) {
    const std::uint8_t* pixels = images.pixels.data() + indices[n] * kImageBytes;
    if (changes) {
      apply(draw_for(augmentation, epoch, indices[n]), pixels, changed.data());
      pixels = changed.data();
    }
    scaling.apply(pixels, out);
    labels[n] = images.labels[indices[n]];
  }
}

}  // namespace muster::data
