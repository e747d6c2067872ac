// SPDX-License-Identifier: Apache-2.0
#include "agent/core/worker_environment.hpp"

#include "worker_sdk/env/worker_env.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::agent {

namespace {

constexpr const char* kStatusVariable = "MUSTER_STATUS";
constexpr const char* kStopFileVariable = "MUSTER_STOP_FILE";
constexpr const char* kTimerFileVariable = "TORCHELASTIC_TIMER_FILE";
constexpr const char* kDeviceOrderVariable = "CUDA_DEVICE_ORDER";

void set_variable(Environment& environment, const std::string& name, const std::string& value) {
  for (auto& [present, old_value] : environment) {
    if (present != name) continue;
    old_value = value;
    return;
  }
  environment.emplace_back(name, value);
}

/// Returns the device of one worker under --virtual-local-rank: its entry of the inherited list, or its local
/// rank.
std::string visible_device(const Environment& environment, int local_rank) {
  const std::string* list = find_variable(environment, "CUDA_VISIBLE_DEVICES");
  if (list == nullptr) return std::to_string(local_rank);
  std::size_t begin = 0;
  for (int index = 0;; ++index) {
    const std::size_t end = list->find(',', begin);
    if (index == local_rank && begin < list->size()) return list->substr(begin, end - begin);
    if (end == std::string::npos)
      throw std::invalid_argument("--virtual-local-rank: CUDA_VISIBLE_DEVICES=" + *list +
                                  " has no entry for local rank " + std::to_string(local_rank) +
                                  "; name one device per worker");
    begin = end + 1;
  }
}

Environment before_contract(const AgentSpec& spec, const Environment& inherited) {
  Environment environment = inherited;
  // A status file that we inherited is our own, or a stranger's: no worker of this job may write into it. The
  // stop file of a job around this one is for this job's launcher.
  std::erase_if(environment, [](const auto& entry) {
    return entry.first == kStatusVariable || entry.first == kStopFileVariable;
  });
  for (const std::string& unwanted : spec.unset_environment)
    std::erase_if(environment, [&unwanted](const auto& entry) { return entry.first == unwanted; });
  for (const auto& [name, value] : spec.environment) set_variable(environment, name, value);
  return environment;
}

}  // namespace

const std::string* find_variable(const Environment& environment, const std::string& name) {
  for (const auto& [present, value] : environment)
    if (present == name) return &value;
  return nullptr;
}

std::string variable_or(const Environment& environment, const std::string& name, const char* otherwise) {
  const std::string* value = find_variable(environment, name);
  return value == nullptr ? otherwise : *value;
}

std::optional<std::string> watchdog_pipe(const AgentSpec& spec, const Environment& inherited) {
  const Environment environment = before_contract(spec, inherited);
  const std::string* enabled = find_variable(environment, "TORCHELASTIC_ENABLE_FILE_TIMER");
  if (enabled == nullptr || *enabled != "1") return std::nullopt;
  const std::string* path = find_variable(environment, kTimerFileVariable);
  return path == nullptr ? "" : *path;
}

Environment worker_environment(const AgentSpec& spec, const rendezvous::RoundResult& place, int local_rank,
                               int restarts, const std::string& error_file, const Environment& inherited,
                               const std::string& status_file, const std::string& timer_file,
                               const std::string& stop_file) {
  Environment environment = before_contract(spec, inherited);
  WorkerEnv env;
  env.rank = env.role_rank = place.first_rank + local_rank;
  env.world_size = env.role_world_size = place.world_size;
  env.local_rank = spec.virtual_local_rank ? 0 : local_rank;
  env.local_world_size = spec.workers;
  env.node_rank = place.node_rank;
  env.nodes = place.nodes;
  env.role = spec.role;
  env.store_host = place.store_host;
  env.store_port = place.store_port;
  env.restart_count = restarts;
  env.max_restarts = spec.limits.max_restarts;
  env.run_id = spec.run_id;
  env.error_file = error_file;
  for (const auto& [name, value] : to_environment(env)) set_variable(environment, name, value);
  if (!status_file.empty()) environment.emplace_back(kStatusVariable, status_file);
  if (!stop_file.empty()) set_variable(environment, kStopFileVariable, stop_file);
  if (!timer_file.empty()) set_variable(environment, kTimerFileVariable, timer_file);
  // Workers are bound by the places of GPUs on the bus; CUDA numbers GPUs in that order only where it is told
  // to.
  const bool bound = spec.bind_to != "none" || !spec.numa_binding.empty();
  if (bound && find_variable(environment, kDeviceOrderVariable) == nullptr)
    environment.emplace_back(kDeviceOrderVariable, "PCI_BUS_ID");
  if (spec.virtual_local_rank)
    set_variable(environment, "CUDA_VISIBLE_DEVICES", visible_device(environment, local_rank));
  return environment;
}

std::vector<std::string> worker_arguments(const AgentSpec& spec, int local_rank) {
  std::vector<std::string> arguments = spec.command;
  const std::string number = std::to_string(local_rank);
  for (std::size_t i = spec.first_script_argument; i < arguments.size(); ++i)
    arguments[i] = substitute_local_rank(arguments[i], number);
  return arguments;
}

namespace {

constexpr std::string_view kBraced = "${local_rank}";
constexpr std::string_view kBare = "$local_rank";

bool continues_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Returns how many characters the macro at the front of `text` takes; 0: there is none.
std::size_t macro_length(std::string_view text) {
  if (text.starts_with(kBraced)) return kBraced.size();
  if (!text.starts_with(kBare)) return 0;
  return text.size() > kBare.size() && continues_name(text[kBare.size()]) ? 0 : kBare.size();
}

}  // namespace

std::string substitute_local_rank(std::string_view text, std::string_view local_rank) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t plain = text.find('$');
    result += text.substr(0, plain);
    if (plain == std::string_view::npos) break;
    text.remove_prefix(plain);
    const std::size_t macro = macro_length(text);
    const std::size_t escaped = macro_length(text.substr(1));
    if (macro != 0)
      result += local_rank;
    else
      result += text.substr(escaped == 0 ? 0 : 1, std::max<std::size_t>(escaped, 1));
    text.remove_prefix(macro != 0 ? macro : escaped + 1);
  }
  return result;
}

}  // namespace muster::agent
