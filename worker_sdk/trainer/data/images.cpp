// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/data/images.hpp"

namespace muster::data {

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

void gather(const Images& images, std::span<const std::uint32_t> indices, const Normalization& normalization,
            float* out, std::uint8_t* labels) {
  const Scaling scaling(normalization);
  for (std::size_t n = 0; n < indices.size(); ++n, out += kImageBytes) {
    scaling.apply(images.pixels.data() + indices[n] * kImageBytes, out);
    labels[n] = images.labels[indices[n]];
  }
}

}  // namespace muster::data
