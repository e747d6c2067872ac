// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/cli/cli_options.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;

/// The command line after `muster run`, over PET_ variables, over defaults. Throws UsageError. With `help`
/// set only that field means anything.
CliOptions parse_run_options(const std::vector<std::string>& arguments, const VariableLookup& variable);

/// The text of `muster run --help`.
std::string run_help();

/// The command line of `muster rendezvous`; meanings as in its help.
struct RendezvousOptions {
  std::string listen;
  std::vector<std::string> allow_from;
  bool listen_any = false;
  bool same_user_only = true;
  std::string secret_file;
  bool insecure_no_secret = false;
  /// Ask the daemon there how it is, instead of being one. Empty: be one.
  std::string status;
  std::string log_level;
  bool help = false;
};

RendezvousOptions parse_rendezvous_options(const std::vector<std::string>& arguments);
std::string rendezvous_help();

}  // namespace muster::launcher
