// SPDX-License-Identifier: Apache-2.0
#include "agent/process/signal_state.hpp"
#include "agent/started_node.hpp"
#include "launcher/attach_command.hpp"
#include "launcher/build_facts.hpp"
#include "launcher/cli/command_table.hpp"
#include "launcher/cli/version_text.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/doctor_command.hpp"
#include "launcher/error_report.hpp"
#include "launcher/inspect_command.hpp"
#include "launcher/kill_command.hpp"
#include "launcher/logs_command.hpp"
#include "launcher/rendezvous_command.hpp"
#include "launcher/run_command.hpp"
#include "launcher/shim_command.hpp"
#include "launcher/show_command.hpp"
#include "launcher/standard_output.hpp"
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

/// Makes a terminal pass all bytes as they are: `srun --unbuffered` makes our stdout one (it would read a
/// pipe by lines only), and frames are no text.
void leave_bytes_alone(int fd) {
  termios settings{};
  if (::tcgetattr(fd, &settings) != 0) return;
  ::cfmakeraw(&settings);
  ::tcsetattr(fd, TCSANOW, &settings);
}

bool asks_for_help(const std::vector<std::string>& words) {
  return words.size() == 1 && (words[0] == "--help" || words[0] == "-h");
}

/// 'muster agent': what a launcher starts on other hosts.
int agent_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
  if (asks_for_help(arguments))
    return print("Usage: muster agent\n\nWhat 'muster run' starts on other hosts; of no use by hand.\n");
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

/// 'muster version' and 'muster --version'.
int version_command(const std::vector<std::string>& arguments) {
  if (asks_for_help(arguments)) return print("Usage: muster version [--json]\n");
  const bool json = arguments == std::vector<std::string>{"--json"};
  if (!json && !arguments.empty())
    throw UsageError("'" + arguments.front() + "' is one word too many; muster version takes only --json");
  return print(json ? version_json(build_facts()) : "muster " MUSTER_VERSION "\n");
}

/// Returns what prints the help of the command that stands behind 'help'; 'help' alone where there is none.
std::vector<std::string> asked_of_help(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || asks_for_help({arguments[1]}) || arguments[1] == "help") return {"help"};
  if (arguments.size() > 2)
    throw UsageError("'" + arguments[2] + "' is one word too many; write 'muster help " + arguments[1] + "'");
  return {arguments[1], "--help"};
}

int dispatch(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
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
  if (command == "show") return show_command(rest);
  if (command == "help" || asks_for_help({command})) return print(usage_text());
  if (command == "version" || command == "--version") return version_command(rest);
  throw unknown_command(arguments);
}

int run_muster(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
  if (arguments.empty()) {
    std::fputs(usage_text().c_str(), stderr);
    return muster::kExitUsage;
  }
  return dispatch(arguments.front() == "help" ? asked_of_help(arguments) : arguments, at_start);
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
      [&] { return is_run ? run_command(arguments, at_start) : run_muster(arguments, at_start); });
}
