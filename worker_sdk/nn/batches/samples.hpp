// SPDX-License-Identifier: Apache-2.0
// Where a learner's samples come from: images in memory, or whoever fills each batch.
#pragma once

#include "worker_sdk/nn/data/images.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace muster::train {

/// Numbers of this rank's samples: a list of them for each batch.
using BatchPlan = std::vector<std::vector<std::uint32_t>>;

/// A batch that is wanted: the places to fill, sample after sample. Of inputs and ids, and of labels and
/// targets, one is empty. All places hold zeros.
struct WantedBatch {
  bool training = true;
  std::span<const std::uint32_t> samples;  ///< their numbers, as the plan has them
  std::span<float> inputs;  ///< images as height x width x channels, or features; see nn::Input
  std::span<std::int32_t> ids;
  std::span<std::int32_t> labels;  ///< cross entropy: one for each sample
  std::span<float> targets;        ///< mean squared error: as many for each sample as it has results
};

/// Fills a batch that is not empty, on the thread that steps or scores; what it throws ends the step.
using FillBatch = std::function<void(const WantedBatch&)>;

struct Samples {
  /// These outlive what is made with them.
  Samples(const data::ImageData& data) : images(&data) {}  // NOLINT(google-explicit-constructor)

  explicit Samples(FillBatch filler) : fill(std::move(filler)) {}

  const data::ImageData* images = nullptr;
  FillBatch fill;  ///< where there are no images
};

}  // namespace muster::train
