// SPDX-License-Identifier: Apache-2.0
// The one macro in a program's arguments: its local rank.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent {

/// Replaces `${local_rank}` and `$local_rank` (with no letter, digit or underscore after it) by `local_rank`.
/// A second dollar sign directly before one of them makes it literal: `$$local_rank` becomes `$local_rank`.
/// Every other dollar sign stays, `$$` too, which shells read as their process number. Pure; never fails.
/// Example: substitute_local_rank("$$ a$b-${local_rank}", "3") is "$$ a$b-3".
std::string substitute_local_rank(std::string_view text, std::string_view local_rank);

}  // namespace muster::agent
