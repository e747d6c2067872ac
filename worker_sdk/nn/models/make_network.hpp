// SPDX-License-Identifier: Apache-2.0
// Networks for this machine's processors.
#pragma once

#include "worker_sdk/nn/description.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace muster::nn {

/// Throws Error (invalid_argument) for an unknown model, naming the known ones, and for classes below 2;
/// Error (unsupported) where this machine cannot compute in the precision wanted (see supports()).
std::unique_ptr<Network> make_network(std::string_view model, const NetworkOptions& options);

/// A network of one's own; `options.classes` is not looked at. Throws also as plan_of() (plan.hpp) and
/// segments_of() (segments.hpp) do.
std::unique_ptr<Network> make_network(const Description& description, const NetworkOptions& options);

/// The tensors of a model without building it. Throws as make_network().
ModelSpec model_spec(std::string_view model, std::int64_t classes = 10);

}  // namespace muster::nn
