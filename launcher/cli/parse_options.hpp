// SPDX-License-Identifier: Apache-2.0
// Reads the command lines of `muster run` and `muster rendezvous`.
#pragma once

#include "launcher/cli/cli_options.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Reads the command line after `muster run`, over PET_ variables, over defaults. Throws UsageError. If
/// `help` is set, only that field means anything.
CliOptions parse_run_options(const std::vector<std::string>& arguments, const VariableLookup& variable);

/// Returns the text of `muster run --help`.
std::string run_help();

/// The command line of `muster rendezvous`; meanings as in its help.
struct RendezvousOptions {
  std::string listen;
  std::vector<std::string> allow_from;
  bool listen_any = false;
  bool same_user_only = true;
  std::string secret_file;
  bool insecure_no_secret = false;
  /// The daemon that is asked how it is, as HOST:PORT. Empty: this process becomes a daemon itself.
  std::string status;
  std::string log_level;
  bool help = false;
};

RendezvousOptions parse_rendezvous_options(const std::vector<std::string>& arguments);
std::string rendezvous_help();

}  // namespace muster::launcher
