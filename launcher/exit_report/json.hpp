// SPDX-License-Identifier: Apache-2.0
// The report, and the root cause's error file, as programs read them. Pure.
#pragma once

#include "agent/core/exit_status.hpp"
#include "agent/core/node_report.hpp"
#include "launcher/exit_report/exit_report.hpp"

#include <string>

namespace muster::launcher {

inline constexpr const char* kReportSchema = "muster.report";
inline constexpr int kReportVersion = 1;

/// Returns the outcome in one word: "succeeded".
const char* word_for(JobOutcome outcome);

/// Returns the report for programs (--report): indented JSON, schema "muster.report" (docs/report.md).
std::string to_json(const ExitReport& report);

/// Returns the text of a worker's error file, made anew as torchrun writes it.
std::string error_file_of(const agent::WorkerError& error);

/// Returns the text of the root cause's error file as the launcher hands it up: with errorCode inside message
/// (torchrun contract 3.5), which is the exit code or minus the signal. A file whose message is a plain
/// string comes back unchanged, as under torchrun; one that is no JSON object is wrapped into one.
std::string error_file_with_code(const std::string& error_file, const agent::ExitStatus& status);

}  // namespace muster::launcher
