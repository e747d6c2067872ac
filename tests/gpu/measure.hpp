// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker_sdk/trainer/data/images.hpp"
#include "worker_sdk/trainer/nn/gpu/session/session.hpp"

#include <cstdint>

namespace muster::nn::gpu {

/// Random images and labels, as many as asked for.
data::Images random_images(std::size_t count);

/// A session on a device with the first parameters of `seed`.
void start(Session& session, std::uint64_t seed);

/// Images a second of whole steps (data, forward, backward, optimizer) of `batch` images.
double images_per_second(const SessionOptions& options, bool autotune);

}  // namespace muster::nn::gpu
