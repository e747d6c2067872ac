// SPDX-License-Identifier: Apache-2.0
// Random crops and flips of training images. The draw for an image is a function of (seed, epoch, index)
// alone: neither threads nor ranks nor a resumed run change it.
#pragma once

#include "worker_sdk/trainer/data/draw.hpp"
#include "worker_sdk/trainer/data/images.hpp"

#include <cstdint>
#include <span>

namespace muster::data {

/// Writes kImageBytes bytes: `pixels` seen through the window of `draw`.
void apply(const Draw& draw, const std::uint8_t* pixels, std::uint8_t* out);

/// gather() with the draws of `epoch` applied first. Any thread.
void gather_augmented(const Images& images, std::span<const std::uint32_t> indices,
                      const Normalization& normalization, const Augmentation& augmentation, int epoch,
                      float* out, std::uint8_t* labels);

}  // namespace muster::data
