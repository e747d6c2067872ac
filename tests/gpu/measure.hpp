// SPDX-License-Identifier: Apache-2.0
// What needs a GPU to be measured: whole steps, and single calls.
#pragma once

#include "tests/gpu/timed_ops.hpp"
#include "worker_sdk/trainer/nn/gpu/session/session.hpp"

#include <cstddef>
#include <vector>

namespace muster::nn::gpu {

/// Images a second of whole steps (data, forward, backward, optimizer) of `options.batch` images: the median
/// of five rounds of about a second each.
double images_per_second(const SessionOptions& options, bool autotune);

/// The calls of a step of `options.batch` images, by name, the longest first: means over `steps` of them,
/// which are put on the device one after the other without waiting. Where it computes for a shorter time than
/// the host takes to start a call, which is some microseconds, the time is the host's.
std::vector<CallTime> call_times(SessionOptions options, std::size_t steps);

}  // namespace muster::nn::gpu
