// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/job_limits.hpp"

namespace muster::rendezvous {

Flags shared_flags(const JobLimits& limits) {
  std::string nodes = std::to_string(limits.min_nodes);
  if (limits.elastic()) nodes += ":" + std::to_string(limits.max_nodes);
  return {{"--nnodes", nodes},
          {"--max-restarts", std::to_string(limits.max_restarts)},
          {"--restart-policy", name_of(limits.restart_rule)},
          {"--store-proxy", limits.store_proxy ? "on" : "off"}};
}

}  // namespace muster::rendezvous
