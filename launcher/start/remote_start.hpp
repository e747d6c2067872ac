// SPDX-License-Identifier: Apache-2.0
// Prepares what runs on another host, whoever starts it there.
#pragma once

#include "launcher/core/node_plan.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <string>

namespace muster::launcher {

struct RemoteStart {
  /// The command for the shell there; it ends by becoming `muster agent`, or runs it.
  std::string command;
  /// Our executable without debug information and section names, which are most of the file, if hosts get a
  /// copy (--push): as a file in memory, and where that can be opened.
  UniqueFd image{};
  std::string push_file{};
};

/// Prepares the start. `version` is ours; `shell_stays` is as RemoteProgram has it. Throws LaunchError
/// (usage) for a --remote-muster that cannot be passed on, or an executable of ours that cannot be read for
/// --push.
RemoteStart remote_start(const RemoteOptions& options, const std::string& version, bool shell_stays);

}  // namespace muster::launcher
