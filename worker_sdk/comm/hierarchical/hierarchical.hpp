// SPDX-License-Identifier: Apache-2.0
// Shared memory inside each host, Gloo between hosts.
#pragma once

#include "worker_sdk/comm/plugin/plugin_backend.hpp"

#include <memory>

namespace muster::hierarchical {

/// The backend of one rank; all ranks of the plan call it alike. The hosts are those of `surroundings`: on
/// one host it is shared memory alone, with one rank on each host Gloo alone.
std::unique_ptr<Backend> join(const GroupPlan& plan, const plugin::GroupKey& key,
                              const plugin::Surroundings& surroundings, StoreClient& store,
                              const std::shared_ptr<plugin::FailureChannel>& channel);

}  // namespace muster::hierarchical
