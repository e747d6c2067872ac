// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm/srun_starter.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/slurm/srun_command.hpp"

#include <unistd.h>

#include <stdexcept>
#include <string_view>
#include <utility>

namespace muster::launcher {
namespace {

/// srun as it is if nothing in our environment would be an option of it.
std::vector<std::string> without_options() {
  std::vector<std::string> words;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (is_srun_option(name)) words.insert(words.end(), {"-u", std::string(name)});
  }
  if (!words.empty()) words.insert(words.begin(), "env");
  return words;
}

}  // namespace

SrunStarter::SrunStarter(const std::vector<NodePlan>& nodes, const RemoteOptions& options,
                         std::string version, const agent::SignalState& signals)
    // srun tells signals by itself, and ends a step whose first process was ended by one.
    : ClientStarter(nodes, options, std::move(version), signals, false),
      without_options_(without_options()) {}

std::vector<std::string> SrunStarter::arguments(std::size_t node) const {
  std::vector<std::string> words = without_options_;
  try {
    const std::vector<std::string> srun = srun_arguments(plan(node).name, remote_command());
    words.insert(words.end(), srun.begin(), srun.end());
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  return words;
}

std::string SrunStarter::server(std::size_t node) const {
  return plan(node).name;
}

StartFailure SrunStarter::explain(std::size_t node, const StartEnd& end) const {
  return explain_srun(end, plan(node).name, version());
}

}  // namespace muster::launcher
