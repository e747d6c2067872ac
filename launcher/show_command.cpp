// SPDX-License-Identifier: Apache-2.0
#include "launcher/show_command.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/exit_report/read_report.hpp"
#include "launcher/exit_report/text.hpp"
#include "launcher/standard_output.hpp"
#include "rendezvous/base/posix.hpp"

#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <system_error>

namespace muster::launcher {
namespace {

constexpr std::size_t kReportBytesMax = std::size_t{256} << 20U;
constexpr const char* kShowHelp =
    "Usage: muster show FILE\n"
    "\n"
    "Prints the report that 'muster run --report FILE' has written as the end of that run did on stderr,\n"
    "with when it ran and by which command; of a job that succeeded, too.\n"
    "\n"
    "  -h, --help          Print this text\n"
    "\n"
    "Exit codes: 0 success; 2 usage; 125 FILE cannot be read or is no report.\n";

ExitReport read_report(const std::string& path) {
  const auto text = read_file(path, kReportBytesMax + 1);
  if (!text)
    throw LaunchError(kExitLauncherFailure, path +
                                                " cannot be read: " + std::generic_category().message(errno) +
                                                "; give a file that 'muster run --report FILE' has written");
  if (text->size() > kReportBytesMax)
    throw LaunchError(kExitLauncherFailure, path + " has more than 256 MiB, so it is no report");
  try {
    return report_from_json(*text);
  } catch (const std::invalid_argument& error) {
    throw LaunchError(kExitLauncherFailure, path + " is no report of 'muster run --report': " + error.what());
  }
}

}  // namespace

int show_command(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && (arguments.front() == "--help" || arguments.front() == "-h"))
    return print(kShowHelp);
  if (arguments.size() != 1 || arguments.front().empty() || arguments.front().front() == '-')
    throw UsageError("'muster show' takes one file, which 'muster run --report FILE' has written");
  return print(to_page(read_report(arguments.front())));
}

}  // namespace muster::launcher
