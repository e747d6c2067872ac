// SPDX-License-Identifier: Apache-2.0
#include "launcher/hosts/exported_environment.hpp"

#include "agent/core/flight_paths.hpp"
#include "launcher/core/launch_error.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace muster::launcher {
namespace {

/// Most bytes of all variables together, and of one. All of a process's arguments and variables have 2 MiB (a
/// quarter of the default stack limit), one text 128 KiB.
constexpr std::size_t kMaxTotal = 1U << 20;
constexpr std::size_t kMaxOne = 128U << 10;

constexpr auto kNames = std::to_array<std::string_view>(
    {"PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CUDA_HOME", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER",
     "CUDA_DEVICE_MAX_CONNECTIONS", "CUBLAS_WORKSPACE_CONFIG", "TZ", "LANG", "TRITON_CACHE_DIR", "HF_HOME",
     "TORCHELASTIC_ENABLE_FILE_TIMER"});

constexpr auto kPrefixes = std::to_array<std::string_view>(
    {"PYTHON", "CONDA_", "NCCL_", "GLOO_", "UCX_", "FI_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_",
     "TORCH_", "PYTORCH_", "CUDNN_", "LC_", "MUSTER_"});

/// Parts of names that hold secrets.
constexpr auto kSecretWords =
    std::to_array<std::string_view>({"SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL",
                                     "PRIVATE", "APIKEY", "API_KEY", "ACCESS_KEY", "AUTH"});

/// Variables of one process or one host, although their names begin as those of exported ones do.
constexpr auto kOwn =
    std::to_array<std::string_view>({"MUSTER_STATUS", "MUSTER_STOP_FILE", "TORCH_WORKER_SERVER_SOCKET",
                                     "CONDA_PROMPT_MODIFIER", "PYTHONINSPECT", "PYTHONSTARTUP"});

bool holds_a_secret(const std::string& name) {
  if (name.ends_with("_KEY") || name == "KEY") return true;
  return std::any_of(kSecretWords.begin(), kSecretWords.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

}  // namespace

std::string without_secrets(const std::string& argument) {
  std::string shown;
  std::size_t name = 0;  // where the present word begins
  for (std::size_t at = 0; at < argument.size();) {
    const char c = argument[at++];
    shown += c;
    const bool in_word =
        c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (c == '=' && holds_a_secret(argument.substr(name, at - 1 - name))) {
      shown += "...";
      at = std::min(argument.find(',', at), argument.size());
    }
    if (!in_word) name = at;
  }
  return shown;
}

bool is_exported_by_default(const std::string& name) {
  if (holds_a_secret(name) || std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end()) return false;
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

ExportedEnvironment exported_environment(const Environment& ours, const std::vector<ExportedName>& names) {
  std::map<std::string, std::string> chosen;
  ExportedEnvironment result;
  for (const auto& [name, value] : ours)
    if (is_exported_by_default(name) && !agent::is_of_outer_job(name, value)) chosen[name] = value;
  for (const ExportedName& wanted : names) {
    bool found = false;
    for (const auto& [name, value] : ours)
      if (wanted.is_prefix ? name.starts_with(wanted.name) : name == wanted.name) {
        chosen[name] = value;
        found = true;
      }
    if (!found) result.missing.push_back(wanted.name + (wanted.is_prefix ? "*" : ""));
  }
  std::size_t total = 0;
  for (const auto& [name, value] : chosen) {
    const std::size_t size = name.size() + value.size() + 2;
    total += size;
    if (size > kMaxOne)
      throw UsageError("the variable " + name + " has " + std::to_string(size) +
                       " bytes, more than a program can be started with; unset or shorten it");
    result.variables.emplace_back(name, value);
  }
  if (total > kMaxTotal)
    throw UsageError("the variables for the workers have " + std::to_string(total) +
                     " bytes together, at most " + std::to_string(kMaxTotal) +
                     " are possible; give --export fewer names");
  return result;
}

}  // namespace muster::launcher
