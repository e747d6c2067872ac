// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace muster::launcher {

/// The first `limit` bytes of a file; nothing if it cannot be read.
std::optional<std::string> read_file(const std::string& path, std::size_t limit);

/// Writes `text` so that a reader sees the old file or the whole new one, never a part (a device or pipe is
/// written straight). Returns the cause of a failure in words, or empty text.
std::string write_file(const std::string& path, const std::string& text);

/// Whether write_file(path) can be expected to work: the file, or else its directory, is writable.
bool can_write_file(const std::string& path);

}  // namespace muster::launcher
