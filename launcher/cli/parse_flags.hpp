// SPDX-License-Identifier: Apache-2.0
// Reads command lines by CLI11, and says what is wrong with one as the rest of muster does.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace muster::launcher {

/// Gives `arguments` to `app`, which is named as its command is typed ("muster ps"). Throws UsageError.
void parse_flags(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace muster::launcher
