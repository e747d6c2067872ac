// SPDX-License-Identifier: Apache-2.0
#include "launcher/shim_command.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/standard_output.hpp"
#include "launcher/start/own_program.hpp"

#include <filesystem>
#include <string_view>
#include <system_error>

namespace muster::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kShim = "torchrun";
constexpr const char* kHelp =
    "Makes DIR/torchrun a link to this program, which is 'muster run' under that name: scripts that call\n"
    "torchrun use muster where DIR stands first in PATH. Remove the link to undo it.\n"
    "Usage: muster install-shim DIR\n"
    "\n"
    "  -h,--help   Print this text\n"
    "\n"
    "Example:\n"
    "  muster install-shim ~/muster-shim && PATH=~/muster-shim:$PATH torchrun --nproc-per-node 2 x.py\n";

}  // namespace

bool called_as_torchrun(const char* name) {
  return name != nullptr && fs::path(name).filename() == kShim;
}

int install_shim_command(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && (arguments.front() == "--help" || arguments.front() == "-h"))
    return print(kHelp);
  if (arguments.size() != 1 || arguments.front().empty() || arguments.front().front() == '-')
    throw UsageError("'muster install-shim' takes one directory; see 'muster install-shim --help'");
  const fs::path link = fs::path(arguments.front()) / kShim;
  const fs::path program = own_executable();
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  const fs::file_status there = fs::symlink_status(link, error);
  const bool ours = fs::is_symlink(there) && fs::read_symlink(link, error) == program;
  if (fs::exists(there) && !ours)
    throw LaunchError(
        kExitLauncherFailure,
        link.string() + " is there already and is not ours; remove it, or give another directory");
  if (!ours) fs::create_symlink(program, link, error);
  if (!fs::is_symlink(fs::symlink_status(link)))
    throw LaunchError(kExitLauncherFailure,
                      link.string() + " cannot be made: " + error.message() + "; give a directory of yours");
  return print(link.string() + " is 'muster run' now; put its directory first in PATH\n");
}

}  // namespace muster::launcher
