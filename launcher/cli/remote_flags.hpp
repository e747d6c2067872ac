// SPDX-License-Identifier: Apache-2.0
// The flags that say how other hosts are reached, for commands that ask them: as those of `muster run`.
#pragma once

#include "launcher/core/node_plan.hpp"

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace muster::launcher {

/// The flags of one command line; it outlives the parsing.
class RemoteFlags {
 public:
  void add_to(CLI::App& app);

  /// Returns what was given. Throws UsageError; `command` is for its text.
  RemoteOptions options(const std::string& command) const;

  /// Returns what was given as words for another command line.
  std::vector<std::string> words() const;

 private:
  std::optional<std::string> remote_muster_;
  std::optional<std::string> ssh_command_;
  std::optional<std::string> ssh_config_;
  std::optional<std::string> ssh_port_;
  std::optional<std::string> login_timeout_;
  bool accept_new_ = false;
};

/// Their lines of a help.
extern const char* const kRemoteFlagsHelp;

/// Returns the value of a flag, "" where it was not given. Throws UsageError for an empty one.
std::string given_text(const std::string& command, const char* flag, const std::optional<std::string>& text);

}  // namespace muster::launcher
