// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/core/node_report.hpp"

#include <string>

namespace muster::agent {

/// Longest error file that is read: a traceback with room to spare.
inline constexpr std::size_t kErrorFileBytesMax = 1 << 20;

/// Reads the text of a worker's error file as torchrun's @record writes it: "message" is an object with
/// "message" and "extraInfo" {"py_callstack", "timestamp" (a string)}, or a plain string beside an optional
/// whole "timestamp". A text that is none of these comes back whole as the message: it is still the best that
/// is known.
WorkerError parse_error_file(const std::string& text);

}  // namespace muster::agent
