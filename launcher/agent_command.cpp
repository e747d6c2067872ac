// SPDX-License-Identifier: Apache-2.0
#include "agent/remote_node.hpp"
#include "launcher/commands.hpp"
#include "launcher/core/launch_error.hpp"

#include <termios.h>
#include <unistd.h>

namespace muster::launcher {
namespace {

/// Makes a terminal pass all bytes as they are: `srun --unbuffered` makes our stdout one (it would read a
/// pipe by lines only), and frames are no text.
void leave_bytes_alone(int fd) {
  termios settings{};
  if (::tcgetattr(fd, &settings) != 0) return;
  ::cfmakeraw(&settings);
  ::tcsetattr(fd, TCSANOW, &settings);
}

}  // namespace

int agent_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
  if (!arguments.empty())
    throw UsageError(
        "'muster agent' takes no arguments; it is started by 'muster run -H HOST,... PROGRAM' on each host");
  if (::isatty(STDIN_FILENO) == 1)
    throw UsageError(
        "'muster agent' speaks to a launcher on stdin and stdout; use 'muster run -H HOST,... PROGRAM'");
  leave_bytes_alone(STDOUT_FILENO);
  agent::RemoteNodeOptions options;
  options.version = MUSTER_VERSION;
  options.signals = at_start;
  return agent::run_remote_node(options);
}

}  // namespace muster::launcher
