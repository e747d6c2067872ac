// SPDX-License-Identifier: Apache-2.0
// --push: our own executable as it is sent to other hosts.
#pragma once

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

/// Throws std::runtime_error if the file at `path` cannot be read or is no executable of this machine.
PushImage make_push_image(const std::string& path);

}  // namespace muster::launcher
