// SPDX-License-Identifier: Apache-2.0
// Batches in memory of the host.
#pragma once

#include "worker_sdk/nn/batches/samples.hpp"
#include "worker_sdk/nn/data/batch_loader.hpp"
#include "worker_sdk/nn/description.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace muster::train {

/// Inputs as the network of a host wants them, and labels or targets, by its loss.
struct HostBatch {
  const void* inputs = nullptr;
  const std::int32_t* labels = nullptr;
  const float* targets = nullptr;
};

/// Gives the batches of one pass after the other. One thread.
class HostBatches {
 public:
  virtual ~HostBatches() = default;

  /// What was left of the pass before is dropped.
  virtual void begin(BatchPlan batches, int epoch) = 0;
  /// The next batch of the pass, valid until the next call. Throws Error (invalid_argument) behind the last.
  virtual HostBatch next() = 0;
};

/// The values of one sample, by the input of a network.
std::size_t sample_elements(const nn::Input& input);

/// Of `images`, which outlive it, by the threads of a loader.
std::unique_ptr<HostBatches> make_image_batches(const data::Images& images,
                                                const data::LoaderOptions& options);

/// What `fill` gives for that network. Its next() also throws what `fill` throws, and Error
/// (invalid_argument) for a label or a number of a token that cannot be, naming the sample.
std::unique_ptr<HostBatches> make_filled_batches(FillBatch fill, const nn::Description& network,
                                                 std::size_t results, bool training);

}  // namespace muster::train
