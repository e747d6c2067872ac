// SPDX-License-Identifier: Apache-2.0
// A device.
#pragma once

#include "worker_sdk/nn/learner/machine.hpp"

#include <memory>
#include <optional>

namespace muster::train {

/// `group` (null: a world of one) and `ops` outlive it. A collective call. `plan` is that of a deterministic
/// world. The first part of a size is put on the device call by call and chooses plans, the second is
/// recorded, all behind it are one launch each. Calls return before the device is done; finish_step() waits.
std::unique_ptr<Machine> make_device_machine(const LearnerTask& task, const Samples& data,
                                             ProcessGroup* group, const std::optional<MicroBatches>& plan,
                                             nn::gpu::Ops& ops);

}  // namespace muster::train
