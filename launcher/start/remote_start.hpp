// SPDX-License-Identifier: Apache-2.0
// What runs on another host, whoever starts it there.
#pragma once

#include "launcher/core/node_plan.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <cstdint>
#include <string>

namespace muster::launcher {

/// A copy of our executable without debug information and section names, which are most of the file.
struct PushImage {
  /// The copy, a file in memory.
  UniqueFd fd;
  std::uint64_t bytes = 0;
  /// Tells one build from another; nobody has to be kept from making a second one of the same mark.
  std::string mark;
};

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

/// Throws std::runtime_error if the file at `path` cannot be read or is no executable of this machine.
PushImage make_push_image(const std::string& path);

}  // namespace muster::launcher
