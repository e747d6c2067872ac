// SPDX-License-Identifier: Apache-2.0
// Losses that are no longer numbers.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/process_group.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace muster::train {

/// An Error (invalid_argument) that names step and rank, the first layer with such a value where it is known
/// (else ""), and ends with the `advice` on what to do.
Error diverged(std::int64_t step, int rank, const std::string& layer, const std::string& advice);

/// Throws diverged() on all ranks, which name the same one, where `sum` is no number: it is that of all
/// ranks' losses, `own` is this rank's. `find_layer` is asked on all ranks, so it may be a collective call,
/// and the answer of the rank that is named counts; empty: the layer is not known. `group` may be null: a
/// world of one. A collective call where it throws.
void require_finite_loss(ProcessGroup* group, std::int64_t step, double own, double sum,
                         const std::string& advice, const std::function<std::string()>& find_layer = {});

}  // namespace muster::train
