// SPDX-License-Identifier: Apache-2.0
// Texts for people: formatted, gathered from all ranks, and as an error file that the agent shows.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace muster {
class ProcessGroup;
}

namespace muster::train {

/// Formats as printf() does, up to 511 bytes.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// A share as text: "53.2 %" for 0.532.
std::string percent(double share);

/// A time as text: "0:07", "12:05", "3:02:10".
std::string clock_time(double seconds);

/// "muster::Error: text" for an exception of that type.
std::string describe(const std::exception& error);

/// The content of torchelastic's error file, which the agent shows in its report: {"message": {"message":
/// ..., "extraInfo": {"py_callstack": ..., "timestamp": ...}}}. `seconds` since 1970. Bytes that are not
/// UTF-8 are replaced.
std::string error_file_text(const std::string& message, std::int64_t seconds);

/// Writes it to `path` (TORCHELASTIC_ERROR_FILE; empty: does nothing). Returns false if that failed: the
/// error that is being reported matters more.
bool write_error_file(const std::string& path, const std::string& message, std::int64_t seconds);

/// The texts of all ranks, on every rank. A collective call; null: a world of one. For ends of runs: each
/// text goes around once, whole.
std::vector<std::string> all_texts(ProcessGroup* group, const std::string& mine);

/// The texts of all ranks, on rank 0; empty elsewhere. A collective call; null: a world of one.
std::vector<std::string> texts_at_first(ProcessGroup* group, const std::string& mine);

}  // namespace muster::train
