// SPDX-License-Identifier: Apache-2.0
// Picks the variables that go to the workers of other hosts. Pure.
#pragma once

#include "launcher/core/launch_error.hpp"

#include <string>
#include <utility>
#include <vector>

namespace muster::launcher {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Whether a variable is exported without being asked for: what says how programs are found and how libraries
/// of training behave (PATH, LD_LIBRARY_PATH, PYTHON*, NCCL_*, OMP_*, ...), never what belongs to one host,
/// one process or a secret.
bool is_exported_by_default(const std::string& name);

/// Returns a flag or its value as it may be shown to others: what stands behind "NAME=", up to a comma, is
/// "..." where the name looks like that of a secret.
std::string without_secrets(const std::string& argument);

/// A variable, or with `is_prefix` all that begin with `name`.
struct ExportedName {
  std::string name;
  bool is_prefix = false;
};

struct ExportedEnvironment {
  Environment variables;
  /// Names that were asked for and that we do not have.
  std::vector<std::string> missing;
};

/// Picks from `ours` the defaults, and the `names` that the user asked for (--export). Throws UsageError if
/// they are larger than a program can be started with.
ExportedEnvironment exported_environment(const Environment& ours, const std::vector<ExportedName>& names);

}  // namespace muster::launcher
