// SPDX-License-Identifier: Apache-2.0
// Batches that are made ready while the network computes.
#pragma once

#include "worker_sdk/trainer/data/augment.hpp"
#include "worker_sdk/trainer/data/images.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace muster::data {

struct LoaderOptions {
  /// Threads that prepare batches; 0: next() prepares them itself.
  int threads = 1;
  /// Batches that are prepared ahead, at least 1.
  int prefetch = 2;
  Normalization normalization = kCifar10Normalization;
  Augmentation augmentation;
};

/// Images of one step, ready for the network: normalized floats, height x width x channels.
struct Batch {
  std::span<const std::uint32_t> indices;
  const float* images = nullptr;
  const std::uint8_t* labels = nullptr;

  std::size_t size() const { return indices.size(); }
};

/// Prepares the batches of one pass after the other. What it gives does not depend on the number of threads.
/// One calling thread.
class BatchLoader {
 public:
  /// `images` outlives the loader.
  BatchLoader(const Images& images, const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  /// Starts a pass over `batches`, each a list of indices of images, which may be empty; what was left of the
  /// pass before is dropped. `epoch` decides about the random crops and flips. The indices are copied.
  void begin(std::vector<std::vector<std::uint32_t>> batches, int epoch);
  /// The next batch of the pass, valid until the next call; waits for the threads, which wait for nobody.
  /// Throws Error (invalid_argument) after the last batch, std::bad_alloc where there is no memory for it.
  Batch next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::data
