// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::launcher {

/// A node on which the agent could not be started, or was lost.
struct HostFailure {
  std::string node;
  /// "ssh: connection refused".
  std::string cause;
  /// What to do next; may be empty.
  std::string advice;
  /// The agent had been started.
  bool lost = false;
  /// The job goes on without this node: as many are left as it needs (--nnodes MIN:MAX).
  bool spared = false;
  bool operator==(const HostFailure&) const = default;
};

}  // namespace muster::launcher
