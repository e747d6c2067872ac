// SPDX-License-Identifier: Apache-2.0
// Where a log file of a bounded size ends and the next one begins. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster::agent {

/// What the name of a log file gets when the next one takes its place.
inline constexpr std::string_view kRotatedSuffix = ".1";

/// Returns how many of `bytes` (not empty) still belong into a file that has `size` bytes and may have
/// `limit` (0: any number); 0: the next file is to begin first. Lines of `bytes` stay whole where they fit
/// into a file. `at_line_start`: the file is empty or ends with a newline.
std::size_t bytes_for_file(std::uint64_t size, std::uint64_t limit, std::string_view bytes,
                           bool at_line_start);

}  // namespace muster::agent
