// SPDX-License-Identifier: Apache-2.0
// What the bits of a run depend on beside model, seed and world: a checkpoint says it, and a run that goes on
// from there learns what differs.
#pragma once

#include "worker_sdk/muster_train/trainer/trainer.hpp"
#include "worker_sdk/nn/checkpoint/checkpoint.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::train {

struct Provenance {
  /// hash_of() the images; "": unknown, then nothing is compared.
  std::string data;
  /// The precision was this machine's choice: then it must not change in the middle of a run.
  bool precision_is_a_choice = false;
  int threads = 0;           ///< threads of this rank; 0: unknown
  std::string instructions;  ///< nn::instruction_set(), or the name of the device; "": unknown
};

/// 16 hexadecimal digits over all images and labels.
std::string hash_of(const data::ImageData& data);

/// The name of a precision: "fp32", "tf32", "bf16" or "fp16".
std::string name_of(nn::Precision precision);

/// Adds what compare_provenance() reads.
void add_provenance(checkpoint::Scalars& scalars, const Provenance& made, const TrainerOptions& options);

/// What a run can reach, and a number of any kind can hold.
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 50;

void add_loss_scale(checkpoint::Scalars& scalars, const LossScale& scale);

/// That of a run whose loss was scaled; as at the beginning where it was not. Throws Error (invalid_argument)
/// for one that cannot be.
LossScale loss_scale_of(const checkpoint::Checkpoint& from);

/// A sentence for each thing in which this run differs from that of the checkpoint. Throws Error
/// (invalid_argument) where it has other images, or another precision that nobody asked for. What a
/// checkpoint does not say is not compared.
std::vector<std::string> compare_provenance(const std::string& path, const checkpoint::Scalars& theirs,
                                            const Provenance& ours, const TrainerOptions& options);

/// Compares only what a network that is scored sees and computes in. Returns a sentence for each difference.
std::vector<std::string> compare_inputs(const checkpoint::Scalars& theirs, const TrainerOptions& options);

}  // namespace muster::train
