// SPDX-License-Identifier: Apache-2.0
// The status of a node as JSON, alone or as part of a job's. For sources that write or read JSON.
#pragma once

#include "agent/core/health_json.hpp"
#include "agent/core/host_causes_json.hpp"
#include "agent/core/node_status.hpp"
#include "agent/stacks/core/stacks_json.hpp"

#include <nlohmann/json.hpp>

namespace muster::agent {

// A field that is missing has its default, so that a muster can ask a job of another version.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NodeQuery, stacks, helpers, native, ranks, signal, notice)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(WorkerStatus, rank, local_rank, pid, state, cpu_ms, memory,
                                                memory_peak, does, activity, wait, since_ms, still_ms, place,
                                                held_in, output_ms, gpu, step, now, signalled, processes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StandingHang, level, text, said_ms, culprits)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(EndedRound, round, cause, decision)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(NodeStatus, host, node, node_rank, pid, round, restarts,
                                                doing, hang, slow, host_causes, ended_rounds, workers)

}  // namespace muster::agent
