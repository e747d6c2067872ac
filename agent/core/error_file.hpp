// SPDX-License-Identifier: Apache-2.0
// Reads what a failed worker has left in its error file, as torchrun's @record writes it.
#pragma once

#include "agent/core/node_report.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::agent {

/// Longest error file that is read: a traceback with room to spare.
inline constexpr std::size_t kErrorFileBytesMax = 1 << 20;

/// Returns the text of an error file, as JSON if it can be made so: bytes that are no UTF-8, and escapes that
/// stand for half a character (Python writes such, "\ud800"), become U+FFFD.
std::string mended_json(const std::string& text);

/// Reads the text of a worker's error file as torchrun's @record writes it: "message" is an object with
/// "message" and "extraInfo" {"py_callstack", "timestamp" (a string)}, or a plain string beside an optional
/// whole "timestamp". A text that is none of these comes back whole as the message: it is still the best that
/// is known.
WorkerError parse_error_file(const std::string& text);

/// Returns the error with the last bytes of long texts alone, `most` of each, which in a traceback say most.
WorkerError last_of(WorkerError error, std::size_t most);

/// Returns the line by which this failure is known again in another round: the first of the error file's
/// message, else the first of the last lines that names an error and is not indented. Empty if there is none.
/// Control characters are blanks in it.
std::string error_line(const WorkerError& error, const std::vector<std::string>& last_lines);

}  // namespace muster::agent
