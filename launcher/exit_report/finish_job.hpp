// SPDX-License-Identifier: Apache-2.0
// The last step of a job: the verdict, told to people, programs and the caller.
#pragma once

#include "agent/core/node_report.hpp"
#include "launcher/core/job_end.hpp"

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

struct JobSpec;

/// Prints the report on stderr (nothing after a success without notes), writes --report, copies the root
/// cause's error file to the launcher's TORCHELASTIC_ERROR_FILE, removes a temporary log directory after
/// success, and returns the exit code. `reports` holds one entry per node that reported; it may be empty
/// (launcher_error). Failing to write a file is said on stderr and changes no exit code.
int finish_job(const JobSpec& spec, const std::vector<agent::NodeReport>& reports, const JobEnd& end);

/// Writes `text` so that a reader sees the old file or the whole new one, never a part; symbolic links stay.
/// A terminal, a pipe or a file that a process has open (/dev/stdout) is written straight. Returns the cause
/// of a failure in words, or empty text.
std::string write_file(const std::string& path, const std::string& text);
/// The same with this mode for the new file; any thread.
std::string write_file(const std::string& path, const std::string& text, mode_t mode);

/// Returns the mode that the umask leaves to a new file. Call it where no other thread makes files by the
/// umask.
mode_t default_mode();

/// Returns why write_file(path) would fail now, in words; empty if it would not. A file beside it is made and
/// removed, because permissions do not say all: /proc takes no files from anybody.
std::string write_obstacle(const std::string& path);

}  // namespace muster::launcher
