// SPDX-License-Identifier: Apache-2.0
// What the status slot of a program that uses the SDK tells of what its rank does. Pure.
#pragma once

#include "agent/core/rank_health.hpp"
#include "worker_sdk/status/status_reader.hpp"

namespace muster::agent {

/// Adds to a sample what the slot shows: how far the rank is, and the call that it is in.
void add_slot(WorkerSample& sample, const status::RankStatus& status);

}  // namespace muster::agent
