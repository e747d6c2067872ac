// SPDX-License-Identifier: Apache-2.0
// What a run will take of memory, before anything is made. Pure.
#pragma once

#include "worker_sdk/muster_train/data/cifar10.hpp"
#include "worker_sdk/muster_train/trainer/trainer.hpp"
#include "worker_sdk/nn/learner/step_profile.hpp"
#include "worker_sdk/nn/plan.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace muster::train {

/// How a run on so many ranks shares the work: "ddp", "zero1", "zero2", "fsdp", "dp".
std::string form_of(const TrainerOptions& options, int ranks);

/// What a network takes for itself, as its kernels say.
struct KernelMemory {
  /// Network::memory_for() of one network.
  std::function<nn::MemoryUse(std::span<const nn::BatchSize>)> of;
  /// Network::memory_by_step().
  std::vector<nn::StepMemory> steps;
  /// Bytes of one sample as the network reads it.
  std::size_t sample_bytes = 0;
  bool on_device = false;
};

struct MemoryEstimate {
  /// Rows as a run has them at its end. `peak_resident` is 0, and `replicas` only of the form dp.
  MemoryTable table;
  /// Bytes of gradients of micro-batches that wait for the end of their step; they are in the table's
  /// `gradients`, too.
  std::size_t waiting = 0;
  /// The parts of the table's activations, for the largest batch: of replica 0 where there are several.
  std::vector<std::pair<std::string, std::size_t>> layers;

  /// Of this process (on a device: of the device).
  std::size_t total() const;
};

/// The sizes of batches that a rank meets in training and in evaluations, each once.
std::vector<nn::BatchSize> batches_of(const TrainerOptions& options, const data::ImageCounts& images,
                                      int ranks);

/// The memory of the rank that has the most, from the first step to the end of the first evaluation, and of
/// the first checkpoint, where the run writes any (`checkpoints`). What the backend of a group takes to send
/// is not in it, nor the code of libraries that kernels bring into memory (up to 10 MB); of the scratch
/// memory that oneDNN asks for some is never written.
///
/// With P bytes of parameters and O of the optimizer's state (and of the average of weights), all in floats:
/// - ddp: 2P + O, activations and workspace for the rank's batch.
/// - dp: the same for replica 0, which also has samples and logits of the whole batch, but activations only
///   for its share; and for each other replica 2P, activations and workspace for its share.
/// - zero1, zero2, fsdp on n ranks: 2P + O/n; P + (P+O)/n and the gradients of the two largest neighbouring
///   buckets; (2P+O)/n and the two largest neighbouring units, as parameters and as gradients.
/// - a checkpoint: P + O more, in shards (P+O)/n; not on a device, whose memory it does not take.
MemoryEstimate estimate_memory(const nn::Plan& plan, const TrainerOptions& options,
                               const data::ImageCounts& images, int ranks, const KernelMemory& kernels,
                               bool checkpoints = false);

/// The largest batch of a rank, up to `most`, for which total(batch) is not above `free`; 0: there is none.
/// `total` grows with the batch, nearly in a straight line.
std::size_t largest_batch(const std::function<std::size_t(std::size_t)>& total, std::size_t free,
                          std::size_t most);

/// The table of an estimate, the layers that hold activations, and the sum.
std::string estimate_table(const MemoryEstimate& estimate);

}  // namespace muster::train
