// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/doctor_options.hpp"

#include "launcher/cli/parse_flags.hpp"
#include "launcher/cli/remote_flags.hpp"
#include "launcher/core/launch_error.hpp"

#include <CLI/CLI.hpp>

#include <optional>

namespace muster::launcher {
namespace {

constexpr const char* kDoctorHelp =
    "Usage: muster doctor [-H HOSTS] [--no-all-reduce] [--json]\n"
    "\n"
    "Says whether this host, or each of HOSTS, is fit for jobs: muster, Python, torch, GPUs, NCCL, the\n"
    "network interface, room in /dev/shm and /tmp, limits of the user and of control groups, and what\n"
    "earlier jobs have left; what differs between the hosts, and whether an all_reduce across them ends;\n"
    "and what to do about it. Nothing is changed.\n"
    "\n"
    "  -h, --help              Print this text\n"
    "  -H, --host HOSTS        These hosts, listed as for 'muster run': n0,n[1-3],ada@n4:2222\n"
    "  --no-all-reduce         Do not try an all_reduce across HOSTS, which takes some seconds\n"
    "  --json                  The facts and the findings as JSON\n"
    "  --python PROGRAM        The interpreter to look at [PYTHON_EXEC, else python3]\n"
    "  --towards HOST          The network interface on the way to this host [another of HOSTS, else any]\n";
constexpr const char* kExitCodesHelp =
    "\n"
    "Exit codes: 0 no problem; 1 a problem was found; 2 usage; 125 the answer cannot be printed. Notes\n"
    "are no problems.\n";

}  // namespace

DoctorOptions parse_doctor_options(const std::vector<std::string>& arguments) {
  DoctorOptions options;
  std::optional<std::string> hosts, python, towards;
  CLI::App app("", "muster doctor");
  app.set_help_flag();
  app.add_flag("-h,--help", options.help);
  app.add_flag("--no-all-reduce", options.no_all_reduce);
  app.add_flag("--json", options.json);
  app.add_option("-H,--host", hosts);
  app.add_option("--python", python);
  app.add_option("--towards", towards);
  RemoteFlags remote;
  remote.add_to(app);
  parse_flags(app, arguments);
  if (options.help) return options;
  options.hosts = given_text("doctor", "--host", hosts);
  options.python = given_text("doctor", "--python", python);
  options.towards = given_text("doctor", "--towards", towards);
  options.remote = remote.options("doctor");
  options.run_flags = remote.words();
  return options;
}

std::string doctor_help() {
  return std::string(kDoctorHelp) + kRemoteFlagsHelp + kExitCodesHelp;
}

}  // namespace muster::launcher
