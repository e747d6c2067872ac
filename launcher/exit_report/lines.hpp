// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Lines of `text` at '\n', without a last empty one; "\r\n" counts as '\n'.
std::vector<std::string> lines_of(std::string_view text);

/// {0, 1, 2, 5} is "0-2, 5". Sorts.
std::string rank_list(std::vector<int> ranks);

}  // namespace muster::launcher
