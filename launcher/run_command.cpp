// SPDX-License-Identifier: Apache-2.0
#include "launcher/run_command.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/process/process_tree.hpp"
#include "launcher/cli/completion.hpp"
#include "launcher/cli/flag_table.hpp"
#include "launcher/cli/parse_options.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/detached_run.hpp"
#include "launcher/hosts/exported_environment.hpp"
#include "launcher/job.hpp"
#include "launcher/job_spec/dry_run.hpp"
#include "launcher/job_spec/log_directory.hpp"
#include "launcher/job_spec/real_system.hpp"
#include "launcher/job_spec/resolve_job.hpp"
#include "launcher/metrics/metrics_socket.hpp"
#include "launcher/standard_output.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

void set_level(const CliOptions& options, const System& system) {
  if (options.log_level.given)
    set_log_level(options.log_level.value);
  else if (const auto word = system.variable("LOGLEVEL"))
    set_log_level(*word);
  else if (options.event_log_handler.value == "console")
    set_log_level(LogLevel::info);
}

/// Returns a note about signals that were ignored when we were started, as the shell of a script sets it for
/// its jobs in the background: then Ctrl-C's signal does nothing, and nobody has said so. Empty where all is
/// as usual; SIGHUP alone is what nohup is for.
std::string ignored_signals_text(const JobSpec& spec, const agent::SignalState& at_start) {
  std::vector<std::string> ignored;
  std::string heard;
  for (const HandledSignal& signal : spec.signals) {
    if (signal.named || !at_start.ignored(signal.number))
      heard = agent::signal_name(signal.number);
    else if (signal.number != SIGHUP)
      ignored.push_back(agent::signal_name(signal.number));
  }
  if (ignored.empty()) return "";
  return joined(ignored, " and ") + (ignored.size() == 1 ? " was" : " were") +
         " ignored when muster run was started, as in the background of a script, and will not end the "
         "job; " +
         (heard.empty() ? "" : "send " + heard + ", or ") + "name what shall end it with --signals-to-handle";
}

/// Returns the arguments for the report without secrets, because others may read the report than the command
/// line.
std::vector<std::string> shown_arguments(std::vector<std::string> arguments, std::size_t of_program) {
  const auto flags = static_cast<std::ptrdiff_t>(arguments.size() - of_program);
  std::transform(arguments.begin(), arguments.begin() + flags, arguments.begin(), without_secrets);
  return arguments;
}

/// Lets the kernel send us SIGTERM when the thread that has started us ends.
void end_with_parent(const CliOptions& options) {
  const auto& given = options.end_with.given;
  if (!given) return;
  if (options.detach.value)
    throw UsageError(given->quoted() + " ends the job with our parent, and --detach lets it go on; drop one");
  if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
    throw LaunchError(kExitLauncherFailure,
                      given->quoted() + " cannot be had: " + std::generic_category().message(errno));
  // It may have ended before we asked.
  if (::getppid() == options.end_with.value) return;
  throw UsageError(given->quoted() + ": our parent is process " + std::to_string(::getppid()) +
                   "; give the process that starts muster run, and that still runs");
}

/// Makes the log directory. Where it would hold error files alone, which nobody asked for, a failure does not
/// end the job.
std::string make_log_directory(const agent::OutputSpec& output) {
  try {
    return create_log_directory({output.log_dir, output.log_dir_is_temporary});
  } catch (const LaunchError& error) {
    if (!output.log_dir_is_temporary || output.redirects.any() || output.tee.any()) throw;
    std::fprintf(stderr, "muster: note: workers have no error files: %s\n",
                 for_terminal(error.what()).c_str());
    return "";
  }
}

}  // namespace

int run_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
  // A batch system that takes the machine back while names are looked up ends nothing.
  agent::ignore_signals_of_others();
  const RealSystem system;
  const CliOptions options =
      parse_run_options(arguments, [&system](const std::string& name) { return system.variable(name); });
  if (options.help) return print(run_help());
  if (options.print_completion.given) return print(completion_script(*options.print_completion.given));
  set_level(options, system);
  end_with_parent(options);
  ResolvedJob job = resolve_job(options, system);
  for (const std::string& detail : job.details) log_info(detail);
  for (const std::string& notice : job.notices)
    std::fprintf(stderr, "muster: note: %s\n", for_terminal(notice).c_str());
  if (options.dry_run.value) {
    const Allowance here = system.allowance();
    std::fputs(placement_table(job.spec).c_str(), stderr);
    if (const std::string limits = allowance_text(here); !limits.empty())
      std::fprintf(stderr, "muster: note: %s\n", for_terminal(limits).c_str());
    return print(to_json(job.spec, here));
  }
  if (const std::string trouble = agent::proc_trouble(); !trouble.empty())
    throw LaunchError(kExitLauncherFailure, trouble);
  JobSpec spec = std::move(job.spec);
  spec.version = MUSTER_VERSION;
  spec.program = options.program.front();
  spec.arguments = shown_arguments(arguments, options.program.size());
  if (const std::string text = ignored_signals_text(spec, at_start); !text.empty())
    std::fprintf(stderr, "muster: note: %s\n", text.c_str());
  const auto run = [](JobSpec resolved, const agent::SignalState& signals) {
    MetricsSocket metrics(resolved.metrics_listen);  // a place that is taken leaves no directory behind
    resolved.agent.output.log_dir = make_log_directory(resolved.agent.output);
    return run_job(resolved, signals, std::move(metrics));
  };
  if (!options.detach.value) return run(std::move(spec), at_start);
  const std::string& log_dir = options.log_dir.value;
  return run_detached(std::move(spec), log_dir == "/dev/null" ? "" : log_dir, at_start, run);
}

}  // namespace muster::launcher
