// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Lines of `text` at '\n', without a last empty one; "\r\n" counts as '\n'.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace muster::launcher
