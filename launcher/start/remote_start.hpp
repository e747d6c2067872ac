// SPDX-License-Identifier: Apache-2.0
// What runs on another host, whoever starts it there.
#pragma once

#include "launcher/core/node_plan.hpp"
#include "launcher/start/push_image.hpp"

#include <string>

namespace muster::launcher {

struct RemoteStart {
  /// The command for the shell there; it ends by becoming `muster agent`, or runs it.
  std::string command;
  /// Our executable, if hosts get a copy (--push), and where it can be opened.
  PushImage image{};
  std::string push_file{};
};

/// `version` is ours; `shell_stays` as RemoteProgram has it. Throws LaunchError (usage) for a
/// --remote-muster that cannot be passed on, or an executable of ours that cannot be read for --push.
RemoteStart remote_start(const RemoteOptions& options, const std::string& version, bool shell_stays);

/// The path of this process's executable; empty if it cannot be told.
std::string own_executable();

}  // namespace muster::launcher
