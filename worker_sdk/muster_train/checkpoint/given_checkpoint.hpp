// SPDX-License-Identifier: Apache-2.0
// Checkpoints that the user names.
#pragma once

#include "worker_sdk/muster_train/trainer/trainer.hpp"
#include "worker_sdk/nn/checkpoint/checkpoint.hpp"

#include <string>
#include <vector>

namespace muster::train {

/// open_checkpoint() that also knows a folder of checkpoints: that error (invalid_argument) names those in
/// it.
checkpoint::Checkpoint open_given(const std::string& path, const checkpoint::Share& share);

/// Reads the model to be scored: the average of weights where the checkpoint has one, as its run scored it.
/// Optimizer, seed and images may be others. Returns lines for people. Throws Error (invalid_argument) where
/// it is another model. `options` are the trainer's.
std::vector<std::string> read_model(const checkpoint::Checkpoint& from, const TrainerOptions& options,
                                    Learner& learner);

}  // namespace muster::train
