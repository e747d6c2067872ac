// SPDX-License-Identifier: Apache-2.0
// Macros in script arguments and line prefixes: Python's string.Template.safe_substitute, as torchrun uses
// it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace muster::agent {

using MacroValue = std::pair<std::string_view, std::string_view>;

/// Replaces `${name}` and `$name` by the value of `name`, and `$$` by `$`. Names are ASCII identifiers, told
/// apart by case; everything else, unknown names included, stays as it is. Pure; never fails. Example:
/// substitute_macros("a$$b-${local_rank}", {{"local_rank", "3"}}) is "a$b-3".
std::string substitute_macros(std::string_view text, std::initializer_list<MacroValue> values);

}  // namespace muster::agent
