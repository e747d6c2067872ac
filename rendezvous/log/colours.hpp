// SPDX-License-Identifier: Apache-2.0
// Colours for what is said on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace muster {

/// Whether the user wants colours: NO_COLOR is not set, or empty (https://no-color.org).
bool wants_colours();

/// Whether what is written to `fd` may have colours: it is a terminal that knows them, and they are wanted.
bool shows_colours(int fd);

/// Returns a text that begins with "muster: error: " or "muster: warning: " with that word in its colour; any
/// other text as it is.
std::string with_coloured_level(std::string_view text);

/// Returns a text for `fd`: with_coloured_level() where that shows colours.
std::string for_screen(int fd, std::string_view text);

}  // namespace muster
