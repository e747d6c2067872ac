// SPDX-License-Identifier: Apache-2.0
// What the ranks of a job make sure of before they build anything, and what each of them computes on.
#pragma once

#include "worker_sdk/muster_train/train_options.hpp"
#include "worker_sdk/nn/gpu/plugin/device.hpp"
#include "worker_sdk/world/world.hpp"

#include <memory>
#include <span>
#include <string>

namespace muster::examples {

/// Threads of this rank: --threads, else OMP_NUM_THREADS, else its share of the processors that it may use
/// beside the other ranks of its host. Adds a note where OMP_NUM_THREADS leaves some idle. A collective call,
/// whatever the flags.
int choose_threads(TrainOptions& options, World& world);

/// Throws Error (mismatch) on every rank alike where the ranks have other flags or images, naming the first
/// that differs. Over the store: before any call that flags decide about. `threads` count in a deterministic
/// world.
void require_common_options(const TrainOptions& options, int threads, World& world);

/// `--precision auto` is bf16 where it is the choice of every rank. A collective call.
void agree_on_precision(TrainOptions& options, World& world);

/// Adds a note where ranks compute with other instructions or threads: that is fine, but bits then depend on
/// which rank computes what. A collective call.
void compare_processors(TrainOptions& options, World& world);

/// The number of ranks on each host, of which `hosts` has a name for each rank. Throws Error
/// (invalid_argument) where hosts have different numbers, or the ranks of one do not follow one another.
/// Pure.
int ranks_of_a_host(std::span<const std::string> hosts);

/// Sets which ranks have a copy of the model together. A collective call. Throws as ranks_of_a_host().
void choose_shards(TrainOptions& options, World& world);

/// What follows on the reason why there is no device where --device asks for one.
inline constexpr const char* kOnProcessors = "; --device cpu trains on processors";

/// The device that this rank trains on.
struct ChosenDevice {
  std::unique_ptr<nn::gpu::Ops> ops;  ///< the device; null: the processors
  std::string name;                   ///< name of the device
  std::string note;                   ///< says on rank 0 why there is none though a GPU was seen
};

/// Whether choose_device() may find one: else no rank needs a group that moves memory of devices.
bool may_use_device(const TrainOptions& options);

/// Chooses by --device; sets the device and, where it was left open, the precision in `options`. `auto` takes
/// a GPU where every rank has one that it can use and all flags work on it. A collective call. Throws Error
/// (invalid_argument) for flags that a GPU cannot do, (unsupported) for what is missing on this rank.
ChosenDevice choose_device(TrainOptions& options, World& world);

}  // namespace muster::examples
