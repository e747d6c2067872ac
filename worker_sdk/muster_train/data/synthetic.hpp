// SPDX-License-Identifier: Apache-2.0
// Images for trials without a download.
#pragma once

#include "worker_sdk/nn/data/images.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::data {

struct SyntheticOptions {
  std::size_t train_images = 10000;
  std::size_t test_images = 2000;
  std::uint64_t seed = 0;
};

/// Ten classes that a network can learn: each class is a coarse pattern of colours; an image is that pattern
/// shifted by a few pixels, mixed with the pattern of a random other class and covered with noise. Labels are
/// balanced. The image at index i depends on the seed and i alone; integer arithmetic, so every machine makes
/// the same bytes.
ImageData make_synthetic(const SyntheticOptions& options);

}  // namespace muster::data
