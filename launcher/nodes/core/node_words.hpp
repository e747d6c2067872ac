// SPDX-License-Identifier: Apache-2.0
// What a node says, as it may stand in our log and report: it is not trusted to speak for another one.
#pragma once

#include <string>

namespace muster::launcher {

/// A line of a muster there, to become part of one that begins in the same way here.
std::string without_our_beginning(const std::string& line);

/// `text` as one of the node `name`: it may speak of another one, but not in its place.
std::string named(const std::string& name, const std::string& text);

/// At most 4096 bytes of it.
std::string shortened(const std::string& text);

/// A guardian's last words name its node; anything else is said with the name of who says it.
std::string last_words_of(const std::string& name, const std::string& text);

}  // namespace muster::launcher
