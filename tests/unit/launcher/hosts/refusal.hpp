// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/core/launch_error.hpp"

#include <string>

namespace muster::launcher {

/// What a parser said no with.
struct Refusal {
  std::string text;
  /// The line under the message, and where in it the caret stands; -1 without one.
  std::string line;
  int caret = -1;

  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }

  /// The character above the caret; 0 behind the end of the line.
  char marked() const {
    return caret >= 0 && caret < static_cast<int>(line.size()) ? line[static_cast<std::size_t>(caret)] : '\0';
  }
};

/// Runs `parse`, which must refuse; an empty refusal if it does not.
template <typename Parse>
Refusal refusal_of(Parse parse) {
  try {
    parse();
  } catch (const UsageError& error) {
    Refusal refusal{error.what(), "", -1};
    if (error.excerpt().size() == 2) {
      refusal.line = error.excerpt()[0];
      refusal.caret = static_cast<int>(error.excerpt()[1].size()) - 1;
    }
    return refusal;
  }
  return {};
}

}  // namespace muster::launcher
