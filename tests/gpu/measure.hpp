// SPDX-License-Identifier: Apache-2.0
// What needs a GPU to be measured: whole steps, and single calls.
#pragma once

#include "tests/gpu/timed_ops.hpp"
#include "worker_sdk/nn/learner/learner.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::nn::gpu {

/// Images a second of whole steps (data, forward, backward, optimizer, the wait for the loss) of
/// `task.batch_size` images: the median of five rounds of about a second each.
double images_per_second(const train::LearnerTask& task, bool autotune);

/// The calls of a step of `task.batch_size` images, by name, the longest first: means over `steps` of them,
/// whose calls are put on the device one after the other without waiting. Where it computes for a shorter
/// time than the host takes to start a call, which is some microseconds, the time is the host's.
std::vector<CallTime> call_times(const train::LearnerTask& task, std::size_t steps);

/// The calls of every layer of rows, forward and backward, in bf16: `batch` images of 64 tokens, 192 wide,
/// with 4 heads.
std::vector<CallTime> row_call_times(std::int64_t batch, std::size_t steps);

}  // namespace muster::nn::gpu
