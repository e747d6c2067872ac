// SPDX-License-Identifier: Apache-2.0
// Plans and makes the log directory of a job.
#pragma once

#include <string>

namespace muster::launcher {

/// Returns `text` as one name of a directory: characters that do not belong there become '_', at most 64 are
/// kept.
std::string file_name_of(const std::string& text);

struct LogDirectory {
  /// "<base>/<run id>_XXXXXX", the Xs to be replaced by create_log_directory(); empty for no logs.
  std::string path;
  bool temporary = false;
};

/// Plans the log directory. `log_dir` is --log-dir: empty for a directory under `temporary_base` (TMPDIR;
/// empty for /tmp) that is removed after success, "/dev/null" for no logs at all. Characters of the run id
/// that do not belong in a file name become '_'. Pure.
LogDirectory plan_log_directory(const std::string& log_dir, const std::string& temporary_base,
                                const std::string& run_id);

/// Makes the base (as mkdir -p) and the planned directory, mode 0700, under a name not used before; returns
/// its absolute path. Throws LaunchError (125) naming the directory and the cause: read-only, full, not a
/// directory.
std::string create_log_directory(const LogDirectory& planned);

}  // namespace muster::launcher
