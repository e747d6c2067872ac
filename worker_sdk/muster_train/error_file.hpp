// SPDX-License-Identifier: Apache-2.0
// The file by which a worker tells its agent why it failed.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace muster::train {

/// "muster::Error: text" for an exception of that type.
std::string describe(const std::exception& error);

/// The content of torchelastic's error file, which the agent shows in its report: {"message": {"message":
/// ..., "extraInfo": {"py_callstack": ..., "timestamp": ...}}}. `seconds` since 1970. Bytes that are not
/// UTF-8 are replaced.
std::string error_file_text(const std::string& message, std::int64_t seconds);

/// Writes it to `path` (TORCHELASTIC_ERROR_FILE; empty: does nothing). Returns false if that failed: the
/// error that is being reported matters more.
bool write_error_file(const std::string& path, const std::string& message, std::int64_t seconds);

}  // namespace muster::train
