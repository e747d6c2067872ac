// SPDX-License-Identifier: Apache-2.0
// Reads the log files that the workers of a job on one host have left (--tee, --redirects).
#pragma once

#include "launcher/console/core/console_record.hpp"
#include "launcher/console/core/record_filter.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster::launcher {

/// Calls `take` with what is in the files below the log directory of a job, in the order of rounds and ranks,
/// stdout before stderr; records have no time. Files of ranks and rounds that are not wanted are not opened.
/// Returns whether there is any file.
bool read_log_files(const std::string& log_dir, const RecordFilter& filter,
                    const std::function<void(const std::vector<ConsoleRecord>&)>& take);

}  // namespace muster::launcher
