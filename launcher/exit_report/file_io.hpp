// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::launcher {

/// Writes `text` so that a reader sees the old file or the whole new one, never a part (a device or pipe is
/// written straight). Returns the cause of a failure in words, or empty text.
std::string write_file(const std::string& path, const std::string& text);

/// Why write_file(path) would fail now, in words; empty if it would not. A file beside it is made and
/// removed, because permissions do not say all: /proc takes no files from anybody.
std::string write_obstacle(const std::string& path);

}  // namespace muster::launcher
