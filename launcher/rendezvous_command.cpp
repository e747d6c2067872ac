// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous_command.hpp"

#include "agent/process/signal_state.hpp"
#include "launcher/cli/parse_options.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/peer/key_file.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/server/daemon/daemon_query.hpp"
#include "rendezvous/server/daemon/standalone_daemon.hpp"

#include <signal.h>

#include <cstdio>
#include <utility>

namespace muster::launcher {
namespace {

rendezvous::Secret key_of(const RendezvousOptions& options) {
  if (options.insecure_no_secret) return no_secret();
  if (!options.secret_file.empty()) return read_key_file(options.secret_file).secret;
  return own_key(home_directory()).secret;
}

/// Returns the key; nothing where there is no key and no place to make one in, because the store alone needs
/// none.
std::optional<rendezvous::Secret> key_if_any(const RendezvousOptions& options) {
  try {
    return key_of(options);
  } catch (const NoPlaceForKey& error) {
    log_warning("no jobs of muster run are hosted, only a store for others: " + std::string(error.what()));
    return std::nullopt;
  }
}

std::string duration_text(std::uint64_t seconds) {
  constexpr std::uint64_t kMinute = 60;
  constexpr std::uint64_t kHour = 60 * kMinute;
  if (seconds < kMinute) return std::to_string(seconds) + " s";
  if (seconds < kHour) return std::to_string(seconds / kMinute) + " min";
  return std::to_string(seconds / kHour) + " h " + std::to_string(seconds % kHour / kMinute) + " min";
}

std::string status_text(const std::string& where, const rendezvous::DaemonReport& report) {
  const rendezvous::DaemonStatus& daemon = report.daemon;
  std::string text = where + ": muster " + for_terminal(daemon.software) + ", up " +
                     duration_text(daemon.uptime_s) + ", " + std::to_string(daemon.jobs) +
                     (daemon.jobs == 1 ? " job, " : " jobs, ") + std::to_string(daemon.store_clients) +
                     " connections of torchrun's store\n";
  for (const rendezvous::JobStatus& job : report.jobs)
    text += "job '" + for_terminal(job.run_id) + "': up " + duration_text(job.uptime_s) + ", round " +
            std::to_string(job.round) + ", " + std::to_string(job.nodes) +
            (job.nodes == 1 ? " node" : " nodes") + " connected, restarts " + std::to_string(job.restarts) +
            "; " + for_terminal(job.text) + "\n";
  return text;
}

int print_status(const RendezvousOptions& options) {
  const Endpoint given = parse_endpoint({options.status, "--status"});
  if (given.port.value_or(0) == 0)
    throw UsageError("--status=" + options.status + " has no port; give HOST:PORT as the daemon printed it");
  const rendezvous::Secret key = key_of(options);
  try {
    const auto report = rendezvous::ask_daemon({given.host, *given.port}, key, MUSTER_VERSION);
    return std::fputs(status_text(options.status, report).c_str(), stdout) < 0 ? kExitLauncherFailure
                                                                               : kExitSuccess;
  } catch (const rendezvous::CoordinatorError& error) {
    throw LaunchError(
        kExitLauncherFailure,
        std::string(error.what()) + " (asked for the status of the daemon at " + options.status + ")");
  }
}

}  // namespace

int rendezvous_command(const std::vector<std::string>& arguments) {
  const RendezvousOptions options = parse_rendezvous_options(arguments);
  if (options.help)
    return std::fputs(rendezvous_help().c_str(), stdout) < 0 ? kExitLauncherFailure : kExitSuccess;
  if (!options.log_level.empty()) set_log_level(options.log_level);
  agent::ignore_signals_of_others();
  rendezvous::guard_process(rendezvous::ProcessFiles::closed);
  if (!options.status.empty()) return print_status(options);
  // The first process of a container is given what others leave there, which the kernel reaps; this process
  // has no child of its own.
  ::signal(SIGCHLD, SIG_IGN);
  rendezvous::StandaloneOptions daemon;
  daemon.listen = options.listen;
  daemon.allow_from = options.allow_from;
  daemon.listen_any = options.listen_any;
  daemon.same_user_only = options.same_user_only;
  daemon.key = key_if_any(options);
  daemon.key_is_public = options.insecure_no_secret;
  daemon.version = MUSTER_VERSION;
  if (daemon.key_is_public)
    log_warning("--insecure-no-secret: whoever can reach " + options.listen +
                " can join the jobs there and run programs as this user");
  return rendezvous::run_standalone_daemon(std::move(daemon));
}

}  // namespace muster::launcher
