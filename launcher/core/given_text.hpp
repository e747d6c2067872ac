// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::launcher {

/// Text from outside and where it came from, for error messages: "--nproc-per-node" or "PET_NPROC_PER_NODE".
struct GivenText {
  std::string text;
  std::string source;

  /// "--nproc-per-node=four": how messages quote it.
  std::string quoted() const { return source + "=" + text; }
};

}  // namespace muster::launcher
