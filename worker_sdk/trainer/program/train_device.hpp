// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/nn/gpu/plugin/device.hpp"
#include "worker_sdk/trainer/program/train_options.hpp"
#include "worker_sdk/world/world.hpp"

#include <memory>
#include <string>

namespace muster::examples {

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
