// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/remote_flags.hpp"

#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"

#include <CLI/CLI.hpp>

namespace muster::launcher {
namespace {

constexpr int kMaxPort = 65'535;

}  // namespace

const char* const kRemoteFlagsHelp =
    "  --remote-muster PATH    muster on the hosts [its path here, else PATH]\n"
    "  --ssh-command COMMAND   The SSH client and its first arguments [ssh]\n"
    "  --ssh-config FILE       Its configuration file, as ssh -F\n"
    "  --ssh-port PORT         For hosts listed without one\n"
    "  --ssh-accept-new        Trust hosts that known_hosts does not hold yet, and add them\n"
    "  --login-timeout SECONDS From the start of ssh to the login [10]\n";

std::string given_text(const std::string& command, const char* flag, const std::optional<std::string>& text) {
  if (text && text->empty())
    throw UsageError(std::string(flag) + " has no value; see 'muster " + command + " --help'");
  return text.value_or("");
}

void RemoteFlags::add_to(CLI::App& app) {
  app.add_option("--remote-muster", remote_muster_);
  app.add_option("--ssh-command", ssh_command_);
  app.add_option("--ssh-config", ssh_config_);
  app.add_option("--ssh-port", ssh_port_);
  app.add_flag("--ssh-accept-new", accept_new_);
  app.add_option("--login-timeout", login_timeout_);
}

RemoteOptions RemoteFlags::options(const std::string& command) const {
  RemoteOptions options;
  options.remote_muster = given_text(command, "--remote-muster", remote_muster_);
  options.ssh_config = given_text(command, "--ssh-config", ssh_config_);
  options.accept_new_host_keys = accept_new_;
  if (ssh_command_) options.ssh_command = parse_words({*ssh_command_, "--ssh-command"});
  if (ssh_port_) options.ssh_port = parse_whole_number({*ssh_port_, "--ssh-port"}, 1, kMaxPort);
  if (login_timeout_) options.login_timeout = parse_seconds({*login_timeout_, "--login-timeout"}, true);
  return options;
}

std::vector<std::string> RemoteFlags::words() const {
  std::vector<std::string> words;
  const auto add = [&words](const char* flag, const std::optional<std::string>& value) {
    if (value) words.insert(words.end(), {flag, *value});
  };
  add("--remote-muster", remote_muster_);
  add("--ssh-command", ssh_command_);
  add("--ssh-config", ssh_config_);
  add("--ssh-port", ssh_port_);
  add("--login-timeout", login_timeout_);
  if (accept_new_) words.emplace_back("--ssh-accept-new");
  return words;
}

}  // namespace muster::launcher
