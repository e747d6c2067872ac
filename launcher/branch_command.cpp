// SPDX-License-Identifier: Apache-2.0
#include "launcher/commands.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/tree/branch.hpp"

#include <unistd.h>

namespace muster::launcher {

int branch_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
  if (!arguments.empty() || ::isatty(STDIN_FILENO) == 1)
    throw UsageError(
        "'muster branch' is started by 'muster run --ssh-tree K -H HOST,... PROGRAM' on hosts that start "
        "others, and speaks to it on stdin and stdout; use that");
  BranchOptions options;
  options.version = MUSTER_VERSION;
  options.signals = at_start;
  return run_branch(options);
}

}  // namespace muster::launcher
