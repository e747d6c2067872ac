// SPDX-License-Identifier: Apache-2.0
#include "agent/process/signal_state.hpp"
#include "agent/started_node.hpp"
#include "launcher/attach_command.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/doctor_command.hpp"
#include "launcher/error_report.hpp"
#include "launcher/inspect_command.hpp"
#include "launcher/kill_command.hpp"
#include "launcher/logs_command.hpp"
#include "launcher/rendezvous_command.hpp"
#include "launcher/run_command.hpp"
#include "launcher/shim_command.hpp"
#include "rendezvous/base/resident_memory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace muster::launcher;
namespace agent = muster::agent;

constexpr const char* kUsage =
    "Usage: muster COMMAND [flags]\n"
    "\n"
    "  run          start the workers of a job, on this machine or many, watch them, end them\n"
    "  ps           list the running jobs of this user, on this host or others\n"
    "  status       say what a running job and each of its ranks do, once or (--watch) again and again\n"
    "  stacks       print where each rank of a running job is in its Python code\n"
    "  logs         show what a job has printed; with -f on and on\n"
    "  attach       follow a detached job, and end it by Ctrl-C\n"
    "  kill         end a running job, or send its ranks a signal\n"
    "  clean        remove what jobs of this user that have ended have left on this host\n"
    "  doctor       say whether this host, or others, are fit for jobs, and what to do\n"
    "  rendezvous   run the place where nodes of jobs meet; also a store for torchrun's agents\n"
    "  install-shim make a torchrun that is 'muster run', for scripts that call it by that name\n"
    "  agent        what 'muster run' starts on other hosts; of no use by hand\n"
    "  --version    print the version\n"
    "  --help       print this text; all but agent have their own --help\n"
    "\n"
    "Example: muster run --nproc-per-node 2 train.py\n";

/// Makes a terminal pass all bytes as they are: `srun --unbuffered` makes our stdout one (it would read a
/// pipe by lines only), and frames are no text.
void leave_bytes_alone(int fd) {
  termios settings{};
  if (::tcgetattr(fd, &settings) != 0) return;
  ::cfmakeraw(&settings);
  ::tcsetattr(fd, TCSANOW, &settings);
}

/// 'muster agent': what a launcher starts on other hosts.
int agent_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
  if (!arguments.empty())
    throw UsageError(
        "'muster agent' takes no arguments; it is started by 'muster run -H HOST,... PROGRAM' on each host");
  if (::isatty(STDIN_FILENO) == 1)
    throw UsageError(
        "'muster agent' speaks to a launcher on stdin and stdout; use 'muster run -H HOST,... PROGRAM'");
  leave_bytes_alone(STDOUT_FILENO);
  agent::StartedNodeOptions options;
  options.version = MUSTER_VERSION;
  options.signals = at_start;
  return agent::run_started_node(options);
}

int dispatch(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
  if (arguments.empty()) {
    std::fputs(kUsage, stderr);
    return muster::kExitUsage;
  }
  const std::string& command = arguments.front();
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (command == "run") return run_command(rest, at_start);
  if (command == "kill") return kill_command(rest);
  if (command == "logs") return logs_command(rest);
  if (command == "attach") return attach_command(rest);
  if (is_inspect_command(command)) return inspect_command(command, rest, at_start);
  if (command == "doctor") return doctor_command(rest, at_start);
  if (command == "agent") return agent_command(rest, at_start);
  if (command == "rendezvous") return rendezvous_command(rest);
  if (command == "install-shim") return install_shim_command(rest);
  if (command == "--help" || command == "-h" || command == "help")
    return std::fputs(kUsage, stdout) < 0 ? 1 : 0;
  if (command == "--version") return std::puts("muster " MUSTER_VERSION) < 0 ? 1 : 0;
  throw UsageError("'" + command +
                   "' is not a command; use run, ps, status, stacks, logs, attach, kill, clean, doctor or "
                   "rendezvous, as in 'muster run " +
                   command + "'");
}

/// Opens what is closed of 0, 1 and 2: the next descriptor of ours would get its number, and what is written
/// to "stderr" would go into a pipe of ours.
void open_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  muster::give_back_relocations();
  const auto at_start = agent::SignalState::capture();
  ::signal(SIGXFSZ, SIG_IGN);  // what we print may go to a file that has reached a limit
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool is_run = called_as_torchrun(argv[0]);
  return with_errors_reported(
      [&] { return is_run ? run_command(arguments, at_start) : dispatch(arguments, at_start); });
}
