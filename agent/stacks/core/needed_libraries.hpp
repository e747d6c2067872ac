// SPDX-License-Identifier: Apache-2.0
// Which shared libraries a program names.
#pragma once

#include "agent/stacks/core/memory_reader.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::agent {

/// Most names that are read of one program, and bytes of one name.
inline constexpr std::size_t kNeededMax = 1024;
inline constexpr std::size_t kNeededNameMax = 255;

/// Returns the libraries that an ELF file itself needs (DT_NEEDED), in its order: "libmpi.so.40". Those that
/// they need in turn are not among them. Empty for anything that is no such file, or has none. Reads at most
/// some hundred kilobytes, whatever the file says of itself.
std::vector<std::string> needed_libraries(MemoryReader& file);

}  // namespace muster::agent
