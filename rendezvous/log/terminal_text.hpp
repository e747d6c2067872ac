// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace muster {

/// One line of somebody else's text, safe on a terminal: control characters (C0 but tab, DEL, C1) and bytes
/// that are not UTF-8 are written as \xNN; all other UTF-8 stays. Any thread.
std::string for_terminal(std::string_view line);

}  // namespace muster
