// SPDX-License-Identifier: Apache-2.0
// What a run says whose loss is no longer a number.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/process_group.hpp"

#include <cstdint>
#include <string>

namespace muster::train {

/// An Error (invalid_argument) that names step and rank, the first layer with such a value where it is known
/// (else ""), and what to do.
Error diverged(std::int64_t step, int rank, const std::string& layer);

/// Throws diverged() on all ranks, which name the same one, where `sum` is no number: it is that of all
/// ranks' losses, `own` is this rank's. `group` may be null: a world of one. A collective call where it
/// throws.
void require_finite_loss(ProcessGroup* group, std::int64_t step, double own, double sum);

}  // namespace muster::train
