// SPDX-License-Identifier: Apache-2.0
// What is wrong on a host, as JSON. For sources that write or read JSON.
#pragma once

#include "agent/core/host_causes.hpp"

#include <nlohmann/json.hpp>

namespace muster::agent {

NLOHMANN_JSON_SERIALIZE_ENUM(HostCauseKind, {{HostCauseKind::full_disk, "full_disk"},
                                             {HostCauseKind::throttled, "throttled"},
                                             {HostCauseKind::gpu_error, "gpu_error"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostCause, kind, text, detail)

}  // namespace muster::agent
