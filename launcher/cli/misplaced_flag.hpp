// SPDX-License-Identifier: Apache-2.0
// Notices flags of `muster run` that stand behind the program, where they are the program's. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Returns a note about the first argument of `program` that is probably meant for us: a flag of ours that
/// programs hardly have, and that is not among those that were `given`. "" where there is none, or the
/// program may be a launcher itself.
std::string misplaced_flag(const std::vector<std::string>& program, const std::set<std::string_view>& given);

}  // namespace muster::launcher
