// SPDX-License-Identifier: Apache-2.0
// Reads the command line of `muster doctor`.
#pragma once

#include "launcher/core/node_plan.hpp"

#include <string>
#include <vector>

namespace muster::launcher {

/// Meanings as in the help.
struct DoctorOptions {
  /// -H; empty: this host.
  std::string hosts;
  std::string python;
  std::string towards;
  bool no_all_reduce = false;
  bool json = false;
  bool help = false;
  /// How the hosts are reached, as `muster run` has it.
  RemoteOptions remote;
  /// The flags among these by which `muster run` reaches them likewise.
  std::vector<std::string> run_flags;
};

/// Throws UsageError. If `help` is set, only that field means anything.
DoctorOptions parse_doctor_options(const std::vector<std::string>& arguments);

/// Returns the text of `muster doctor --help`.
std::string doctor_help();

}  // namespace muster::launcher
