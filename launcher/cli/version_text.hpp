// SPDX-License-Identifier: Apache-2.0
// What 'muster --version --json' says of this executable. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace muster::launcher {

/// What an executable was built from, and with.
struct BuildFacts {
  std::string version;
  /// As git names it, with "-dirty" where files differed from it; empty: it was built without git.
  std::string commit;
  std::string compiler;
  std::string build_type;
  /// What is built beside the launcher: backends of the worker SDK and programs.
  std::vector<std::string> backends;
  std::map<std::string, bool> features;
  /// Versions of what is linked in.
  std::map<std::string, std::string> libraries;
};

/// Returns them as one object of JSON, docs/operations.md says which.
std::string version_json(const BuildFacts& facts);

}  // namespace muster::launcher
