// SPDX-License-Identifier: Apache-2.0
// The files of a console: console.1.log, console.2.log and so on, of which the last two are kept. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::launcher {

/// Most bytes of a file, unless one record alone is larger.
inline constexpr std::uint64_t kConsoleFileBytes = std::uint64_t{32} << 20;
inline constexpr std::uint64_t kConsoleFilesKept = 2;

/// Returns the name of file `number`, which is at least 1.
std::string console_file_name(std::uint64_t number);

/// Returns the number in such a name; nullopt for any other file.
std::optional<std::uint64_t> console_file_number(std::string_view name);

/// Whether `more` bytes belong into the next file, where the present one has `size`.
bool begins_next_file(std::uint64_t size, std::size_t more);

/// Whether a file may grow by `more` bytes where no next one can be made: no further than all files that are
/// kept.
bool may_grow(std::uint64_t size, std::size_t more);

/// Returns the file that goes when `number` begins; nullopt: none does.
std::optional<std::uint64_t> dropped_file(std::uint64_t number);

}  // namespace muster::launcher
