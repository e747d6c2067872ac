// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/parse_options.hpp"
#include "launcher/commands.hpp"
#include "launcher/core/launch_error.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/server/standalone_daemon.hpp"

#include <cstdio>

namespace muster::launcher {

int rendezvous_command(const std::vector<std::string>& arguments) {
  const RendezvousOptions options = parse_rendezvous_options(arguments);
  if (options.help)
    return std::fputs(rendezvous_help().c_str(), stdout) < 0 ? kExitLauncherFailure : kExitSuccess;
  if (!options.log_level.empty()) set_log_level(options.log_level);
  rendezvous::StandaloneOptions daemon;
  daemon.listen = options.listen;
  daemon.allow_from = options.allow_from;
  daemon.listen_any = options.listen_any;
  daemon.same_user_only = options.same_user_only;
  return rendezvous::run_standalone_daemon(daemon);
}

}  // namespace muster::launcher
