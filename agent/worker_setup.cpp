// SPDX-License-Identifier: Apache-2.0
#include "agent/worker_setup.hpp"

#include "agent/core/node_traits.hpp"
#include "agent/process/job_mark.hpp"
#include "agent/process/log_directory.hpp"
#include "agent/process/worker_binding.hpp"
#include "rendezvous/base/allowance.hpp"
#include "rendezvous/log/log.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace muster::agent {
namespace {

/// OpenMP starts a thread for each processor that it sees, and sees no quota: then all of them are held up
/// together, again and again. Several workers have one thread each by then.
void apply_quota(const AgentSpec& spec, Environment& inherited) {
  const std::string name = "OMP_NUM_THREADS";
  if (spec.workers != 1 || find_variable(inherited, name) || find_variable(spec.environment, name)) return;
  const Allowance allowance = read_allowance();
  if (!allowance.quota_decides()) return;
  inherited.emplace_back(name, std::to_string(allowance.processors));
  log_info(name + "=" + std::to_string(allowance.processors) + " for the worker, as the quota of cgroup '" +
           allowance.quota_group + "' leaves no more of " + std::to_string(allowance.affinity) +
           " processors");
}

Environment process_environment() {
  Environment environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr)
      environment.emplace_back(std::string(*entry, static_cast<std::size_t>(equals - *entry)),
                               std::string(equals + 1));
  }
  return environment;
}

Environment inherited_environment(const AgentSpec& spec, const NodeTraits& traits) {
  Environment inherited = process_environment();
  if (traits.networked) {
    std::erase_if(inherited, [](const auto& entry) {
      return entry.first == kJobMarkVariable || entry.first == "MUSTER_LOCAL_ADDR";
    });
    inherited.emplace_back(kJobMarkVariable, job_mark());
  }
  apply_quota(spec, inherited);
  return inherited;
}

}  // namespace

WorkerSetup set_up_workers(AgentSpec& spec) {
  WorkerSetup setup;
  const NodeTraits traits(spec);
  setup.inherited = inherited_environment(spec, traits);
  const std::string& directory = spec.working_directory;
  if (!directory.empty() && ::chdir(directory.c_str()) != 0)
    throw std::runtime_error("cannot start workers in " + directory + " on " + spec.host + ": " +
                             std::generic_category().message(errno) +
                             "; make that directory there, or name another one with --wdir");
  if (traits.distant_launcher && !spec.output.log_dir.empty()) {
    spec.output.log_dir = node_log_directory(spec.output.log_dir, spec.node.name);
    make_directory_path(spec.output.log_dir);
  }
  setup.binding = plan_worker_binding(spec);
  return setup;
}

}  // namespace muster::agent
