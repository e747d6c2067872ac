// SPDX-License-Identifier: Apache-2.0
// What a worker says of its own failure, in its error file or in what it prints.
#pragma once

#include "agent/core/node_report.hpp"

#include <string>
#include <vector>

namespace muster::agent {

/// Longest error file that is read: a traceback with room to spare.
inline constexpr std::size_t kErrorFileBytesMax = 1 << 20;

/// Reads the text of a worker's error file as torchrun's @record writes it: "message" is an object with
/// "message" and "extraInfo" {"py_callstack", "timestamp" (a string)}, or a plain string beside an optional
/// whole "timestamp". A text that is none of these comes back whole as the message: it is still the best that
/// is known.
WorkerError parse_error_file(const std::string& text);

/// The line by which this failure is known again in another round: the first of the error file's message,
/// else the first of the last lines that names an error and is not indented. Empty if there is none. Control
/// characters are blanks in it.
std::string error_line(const WorkerError& error, const std::vector<std::string>& last_lines);

}  // namespace muster::agent
