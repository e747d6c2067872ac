// SPDX-License-Identifier: Apache-2.0
// The report as people read it. Pure.
#pragma once

#include "launcher/exit_report/exit_report.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Returns the report for people, on stderr: several lines, or none after a success that left nothing to say.
/// Quoted text of workers is escaped (rendezvous/log/terminal_text.hpp).
std::string to_text(const ExitReport& report);

/// Returns the report for who reads it later: as to_text(), and after a success as much, too.
std::string to_page(const ExitReport& report);

/// Returns the lines of `text`, cut at '\n', without a last empty one; "\r\n" counts as '\n'.
std::vector<std::string> lines_of(std::string_view text);

}  // namespace muster::launcher
