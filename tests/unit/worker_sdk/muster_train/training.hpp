// SPDX-License-Identifier: Apache-2.0
// Training on several ranks of one process, for tests that compare worlds.
#pragma once

#include "tests/support/shm_ranks.hpp"
#include "worker_sdk/muster_train/trainer/trainer.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace muster::test {

/// A synthetic set.
data::ImageData small_set(std::size_t train_images, std::size_t test_images);

/// Catch2's checks are for one thread; this is for the ranks.
void require(bool holds, const char* text);

struct Outcome {
  std::uint64_t hash = 0;
  train::Score train;  ///< of the last epoch
  train::Score test;
  std::vector<float> model;  ///< parameters and running statistics
};

/// Trains whole epochs, and scores the test images.
Outcome outcome_of(train::Trainer& trainer, int epochs);

/// On that many ranks, which have the same parameters at the end; what rank 0 has. `adjust`, where it is
/// given, makes the options of each rank its own.
Outcome run_world(int ranks, const data::ImageData& data, const train::TrainerOptions& options, int epochs,
                  const std::function<void(train::TrainerOptions&)>& adjust = {});

/// The same without a group.
Outcome run_alone(const data::ImageData& data, const train::TrainerOptions& options, int epochs);

/// |a - b| / |b - start| of models; without a start, / |b|.
double distance(const std::vector<float>& a, const std::vector<float>& b,
                const std::vector<float>& start = {});

}  // namespace muster::test
