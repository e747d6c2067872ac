// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol/job_limits.hpp"

namespace muster::rendezvous {

Settings shared_flags(const JobLimits& limits) {
  std::string nodes = std::to_string(limits.min_nodes);
  if (limits.elastic()) nodes += ":" + std::to_string(limits.max_nodes);
  return {{"--nnodes", nodes},
          {"--max-restarts", std::to_string(limits.max_restarts)},
          {"--restart-policy", name_of(limits.restart_rule)},
          {"--store-proxy", limits.store_proxy ? "on" : "off"}};
}

std::string difference(const std::string& title, const Settings& settings, const std::string& other_title,
                       const Settings& other) {
  const auto text = [](const Settings& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? "no " + name : name + "=" + found->second;
  };
  for (const Settings* values : {&other, &settings})
    for (const auto& [name, value] : *values)
      if (const std::string ours = text(settings, name), theirs = text(other, name); ours != theirs)
        return title + " has " + ours + ", " + other_title + " has " + theirs +
               "; give the same on every node";
  return "";
}

}  // namespace muster::rendezvous
