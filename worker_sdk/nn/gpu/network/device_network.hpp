// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/nn/gpu/ops.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace muster::nn::gpu {

/// Sums `count` doubles on the device over all ranks, in place, on `stream` (a cudaStream_t); may be recorded
/// in a graph. All ranks call it equally often.
using DeviceSum = std::function<void(double* data, std::size_t count, void* stream)>;

/// Makes a network for batches of at most `capacity` images. `ops` outlives it. `sum` is for batch norm over
/// all ranks and may be empty. Its forward() throws Error (invalid_argument) for a larger batch. Throws Error
/// as plan_of() (nn/plan.hpp) and segments_of() (nn/segments.hpp), and (unsupported) for more than 2048
/// classes, or channels of maps that kernels do not have.
std::unique_ptr<Network> make_device_network(const Description& description, Precision precision,
                                             std::int64_t capacity, Ops& ops, DeviceSum sum = {},
                                             const ActivationCheckpoints& checkpoints = {});

/// A built-in one, or Error (invalid_argument) for an unknown name.
std::unique_ptr<Network> make_device_network(std::string_view model, Precision precision,
                                             std::int64_t classes, std::int64_t capacity, Ops& ops,
                                             DeviceSum sum = {},
                                             const ActivationCheckpoints& checkpoints = {});

}  // namespace muster::nn::gpu
