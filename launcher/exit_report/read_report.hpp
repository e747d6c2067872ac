// SPDX-License-Identifier: Apache-2.0
// Reads the file of --report. Pure.
#pragma once

#include "launcher/exit_report/exit_report.hpp"

#include <string>

namespace muster::launcher {

/// Returns the report that to_json() has written (docs/report.md), of this version of its schema. Fields that
/// an earlier muster did not write keep their defaults. What it leaves out of each node's own report
/// (decisions, hang, slow, flight records) is empty there. Throws std::invalid_argument: "it has no schema
/// muster.report".
ExitReport report_from_json(const std::string& text);

}  // namespace muster::launcher
