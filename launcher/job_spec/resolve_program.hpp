// SPDX-License-Identifier: Apache-2.0
// Finds out what a worker executes, and refuses what cannot run.
#pragma once

#include "launcher/cli/cli_options.hpp"
#include "launcher/job_spec/system.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster::launcher {

struct ProgramCommand {
  std::vector<std::string> command;
  /// Where the program's own arguments begin (they go through the ${local_rank} macro).
  std::size_t first_script_argument = 1;
  /// The file of the program itself on this machine; empty if Python runs it, or it was not looked for here.
  std::string file;
};

/// Returns what a worker executes:
///  - --run-path: the interpreter with runpy.run_path; -m: the interpreter with -m; --no-python: the command
///  itself;
///  - else an executable file that is not *.py, or such a command of PATH: itself;
///  - anything else that exists: the interpreter with -u FILE.
/// The interpreter is PYTHON_EXEC, else that of the virtual environment in which muster is installed (unless
/// it lies elsewhere on hosts, as --remote-muster and --push say), else python3. Throws LaunchError: 2
/// without a program, 127 if the program, its interpreter or its #! interpreter does not exist, 126 if the
/// program cannot be executed or read.
///
/// `directory` is where the program is looked for and will run (empty: here). Unless it `runs_here`, on this
/// machine too, what is missing here is taken to exist on the hosts, and its name alone decides: *.py is
/// Python's, anything else a command.
ProgramCommand resolve_program(const CliOptions& options, const System& system, const std::string& directory,
                               bool runs_here);

}  // namespace muster::launcher
