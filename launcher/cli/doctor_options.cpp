// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/doctor_options.hpp"

#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"

#include <CLI/CLI.hpp>

#include <optional>
#include <utility>

namespace muster::launcher {
namespace {

constexpr int kMaxPort = 65'535;

constexpr const char* kDoctorHelp =
    "Usage: muster doctor [-H HOSTS] [--no-all-reduce] [--json]\n\n"
    "Says whether this host, or each of HOSTS, is fit for jobs: muster, Python, torch, GPUs, NCCL, the "
    "network\n"
    "interface, room in /dev/shm and /tmp, limits of the user and of control groups, and what earlier jobs "
    "have\n"
    "left; what differs between the hosts, and whether an all_reduce across them ends; and what to do about "
    "it.\n"
    "Nothing is changed.\n\n"
    "  -h, --help              Print this text\n"
    "  -H, --host HOSTS        These hosts, listed as for 'muster run': n0,n[1-3],ada@n4:2222\n"
    "  --no-all-reduce         Do not try an all_reduce across HOSTS, which takes some seconds\n"
    "  --json                  The facts and the findings as JSON\n"
    "  --python PROGRAM        The interpreter to look at [PYTHON_EXEC, else python3]\n"
    "  --towards HOST          The network interface on the way to this host [another of HOSTS, else any]\n"
    "  --remote-muster PATH    muster on the hosts [its path here, else PATH]\n"
    "  --ssh-command COMMAND   The SSH client and its first arguments [ssh]\n"
    "  --ssh-config FILE       Its configuration file, as ssh -F\n"
    "  --ssh-port PORT         For hosts listed without one\n"
    "  --ssh-accept-new        Trust hosts that known_hosts does not hold yet, and add them\n"
    "  --login-timeout SECONDS From the start of ssh to the login [10]\n\n"
    "Exit codes: 0 no problem; 1 a problem was found; 2 usage; 125 the answer cannot be printed. Notes are "
    "no\n"
    "problems.\n";

std::string given_text(const char* flag, const std::optional<std::string>& text) {
  if (text && text->empty())
    throw UsageError(std::string(flag) + " has no value; see 'muster doctor --help'");
  return text.value_or("");
}

}  // namespace

DoctorOptions parse_doctor_options(const std::vector<std::string>& arguments) {
  DoctorOptions options;
  std::optional<std::string> hosts, python, towards, remote_muster, command, config, port, timeout;
  CLI::App app("", "muster doctor");
  app.set_help_flag();
  app.add_flag("-h,--help", options.help);
  app.add_flag("--no-all-reduce", options.no_all_reduce);
  app.add_flag("--json", options.json);
  app.add_option("-H,--host", hosts);
  app.add_option("--python", python);
  app.add_option("--towards", towards);
  app.add_option("--remote-muster", remote_muster);
  app.add_option("--ssh-command", command);
  app.add_option("--ssh-config", config);
  app.add_option("--ssh-port", port);
  app.add_flag("--ssh-accept-new", options.remote.accept_new_host_keys);
  app.add_option("--login-timeout", timeout);
  std::vector<std::string> stack(arguments.rbegin(), arguments.rend());  // CLI11 takes a stack
  try {
    app.parse(std::move(stack));
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see 'muster doctor --help'");
  }
  if (options.help) return options;
  options.hosts = given_text("--host", hosts);
  options.python = given_text("--python", python);
  options.towards = given_text("--towards", towards);
  options.remote.remote_muster = given_text("--remote-muster", remote_muster);
  options.remote.ssh_config = given_text("--ssh-config", config);
  if (command) options.remote.ssh_command = parse_words({*command, "--ssh-command"});
  if (port) options.remote.ssh_port = parse_whole_number({*port, "--ssh-port"}, 1, kMaxPort);
  if (timeout) options.remote.login_timeout = parse_seconds({*timeout, "--login-timeout"}, true);
  const auto run_too = [&options](const char* flag, const std::optional<std::string>& value) {
    if (value) options.run_flags.insert(options.run_flags.end(), {flag, *value});
  };
  run_too("--remote-muster", remote_muster);
  run_too("--ssh-command", command);
  run_too("--ssh-config", config);
  run_too("--ssh-port", port);
  run_too("--login-timeout", timeout);
  if (options.remote.accept_new_host_keys) options.run_flags.push_back("--ssh-accept-new");
  return options;
}

std::string doctor_help() {
  return kDoctorHelp;
}

}  // namespace muster::launcher
