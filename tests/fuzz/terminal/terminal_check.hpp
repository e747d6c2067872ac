// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace muster::test {

/// `bytes` through a filter in chunks of `chunk` bytes, to the end.
std::string filtered(std::string_view bytes, std::size_t chunk);

/// Aborts unless a terminal does nothing with what the filter shows of `bytes` but print, colour, erase and
/// move, whoever prints in between; every byte is shown as itself or as \xNN; and the cut makes no
/// difference. Returns what is shown.
std::string check_filter(std::string_view bytes);

}  // namespace muster::test
