// SPDX-License-Identifier: Apache-2.0
// A batch of training images from a data set that lies on the device as bytes: picked, cropped, flipped,
// normalised and widened to eight channels (five of them zero) in one pass. The draws are those of the
// loader threads (worker_sdk/nn/data).
#pragma once

#include "worker_sdk/nn/data/draw.hpp"
#include "worker_sdk/nn/gpu/kernels/pack.hpp"
#include "worker_sdk/nn/gpu/kernels/step_values.hpp"

#include <cstdint>

namespace muster::nn::gpu {

constexpr int kSide = 32;
constexpr int kColours = 3;

/// The factor and the summand of a pixel, per colour.
struct PixelScaling {
  float scale[kColours];
  float shift[kColours];
};

template <typename T>
struct Gather {
  static constexpr int kPhases = 2;

  struct Shared {
    data::Draw draw;
    std::uint32_t index;
  };

  std::int64_t images;         ///< images in the batch
  const std::uint8_t* pixels;  ///< pixels of the data set
  const std::uint8_t* labels;
  const std::uint32_t* indices;  ///< numbers of this rank's images in the epoch
  const StepValues* values;      ///< the place in `indices` where the batch begins; the epoch
  PixelScaling scaling;
  data::Augmentation augmentation;
  T* out;  ///< images x 32 x 32 x 8
  std::int32_t* out_labels;

  static constexpr int kBlocksPerImage = kSide * kSide / kBlockThreads;

  constexpr int blocks() const { return images < 1 ? 1 : static_cast<int>(images) * kBlocksPerImage; }

  MUSTER_HD void phase(int p, const Place& place, Shared& shared) const {
    if (images == 0) return;
    const std::int64_t image = place.block / kBlocksPerImage;
    if (p == 0) {
      if (place.thread != 0) return;
      shared.index = indices[values->position + image];
      shared.draw =
          values->augment != 0 ? data::draw_for(augmentation, values->epoch, shared.index) : data::Draw{};
      if (place.block % kBlocksPerImage == 0) out_labels[image] = labels[shared.index];
      return;
    }
    const int pixel = place.block % kBlocksPerImage * kBlockThreads + place.thread;
    const int column = pixel % kSide;
    const int row = pixel / kSide + shared.draw.down;
    const int from = (shared.draw.flip ? kSide - 1 - column : column) + shared.draw.right;
    const bool inside = row >= 0 && row < kSide && from >= 0 && from < kSide;
    Floats result{};
    for (int c = 0; c < kColours; ++c) {
      // Outside is black, as a pixel, before it is normalised.
      const std::uint8_t value =
          inside ? pixels[((std::int64_t{shared.index} * kSide + row) * kSide + from) * kColours + c]
                 : std::uint8_t{0};
      result.v[c] = static_cast<float>(value) * scaling.scale[c] + scaling.shift[c];
    }
    store(out + (image * kSide * kSide + pixel) * kPack, result);
  }
};

}  // namespace muster::nn::gpu
