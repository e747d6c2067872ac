// SPDX-License-Identifier: Apache-2.0
// The first values of a network.
#pragma once

#include "worker_sdk/nn/network.hpp"

#include <cstdint>
#include <span>

namespace muster::nn {

/// Fills the values of all slots but those that are null. Convolutions without a bias, which a batch norm
/// follows, as torchvision: He-normal by fan-out (He et al., "Delving Deep into Rectifiers", 2015). All else
/// as PyTorch's defaults: weights and biases uniform within 1 / sqrt(inputs), norms 1 and 0, the first
/// projection of attention uniform by Glorot and Bengio, 2010, its biases 0. Positions are normal with a
/// deviation of 0.02. A function of model and `seed` alone: the same bits for every world size.
void initialize(const ModelSpec& spec, std::span<const ParameterSlot> slots, std::uint64_t seed);

/// Fills the buffers: means 0, variances 1.
void initialize_buffers(const ModelSpec& spec, std::span<float* const> buffers);

}  // namespace muster::nn
