// SPDX-License-Identifier: Apache-2.0
// Batches that are made ready while the network computes.
#pragma once

#include "worker_sdk/nn/data/images.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
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
  struct Slot {
    std::vector<float> images;
    std::vector<std::uint8_t> labels;
    bool filled = false;
  };

  void fill(const std::vector<std::uint32_t>& indices, int epoch, Slot& slot) const;
  bool may_claim() const;
  void prepare_batches();

  const Images& images_;
  const LoaderOptions options_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::vector<std::uint32_t>> batches_;
  int epoch_ = 0;
  std::size_t claimed_ = 0;  ///< batches that a thread has taken on
  std::size_t taken_ = 0;    ///< batches that next() has given
  int busy_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
};

}  // namespace muster::data
