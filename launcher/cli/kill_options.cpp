// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/kill_options.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/core/node_status.hpp"
#include "launcher/cli/inspect_options.hpp"
#include "launcher/cli/parse_flags.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/text.hpp"

#include <CLI/CLI.hpp>

namespace muster::launcher {
namespace {

constexpr const char* kKillHelp =
    "Usage: muster kill [JOB] [--signal NAME] [--rank LIST] [--grace SECONDS] [--now] [--json]\n"
    "\n"
    "Ends a running job as SIGTERM at its 'muster run' does, waits for its end, and says how it ended.\n"
    "\n"
    "  -h, --help          Print this text\n"
    "  --signal NAME       What 'muster run' gets in place of SIGTERM: a signal that ends the job, or one\n"
    "                      that it passes on (USR1, USR2); with --rank any signal\n"
    "  --rank LIST         Send the signal to the processes of these ranks only: 0,2,8-11. What follows\n"
    "                      is as after any failure of a worker\n"
    "  --grace SECONDS     From the stop signal to KILL, in place of --shutdown-timeout\n"
    "  --now               KILL at once, as a second Ctrl-C\n"
    "  --json              What came of it as JSON\n"
    "\n";
constexpr const char* kKillCodes =
    "Exit codes: 0 the job has ended, or the ranks have got the signal; 1 no such job; 2 usage, or a rank\n"
    "or a signal that the job does not know; 3 the job or a rank does not answer or run, or has not ended\n"
    "in time; 125 its answer cannot be read or printed.\n";

int given_signal(const std::string& text) {
  const auto number = parse_number<int>(text);
  const int signal = number ? *number : agent::signal_number(text);
  if (signal < 1 || signal > agent::kSignalMost)
    throw UsageError("--signal=" + text + " is not a signal; give a name such as TERM, INT or USR1");
  return signal;
}

/// Refuses what contradicts itself.
void check_kill(const KillOptions& options, bool has_signal) {
  const auto refuse = [](const char* flags, const char* why) {
    throw UsageError(std::string(flags) + " contradict each other: " + why);
  };
  if (options.now && has_signal) refuse("--now and --signal", "--now ends the job with KILL");
  if (options.now && options.grace) refuse("--now and --grace", "--now leaves no time");
  if (options.now && !options.ranks.empty())
    refuse("--now and --rank", "give --signal KILL for ranks, and the rules of the job decide what follows");
  if (options.grace && !options.ranks.empty())
    refuse("--grace and --rank", "what follows has the --shutdown-timeout of the job");
  if (options.grace && options.signal == SIGKILL) refuse("--grace and --signal KILL", "KILL leaves no time");
}

}  // namespace

KillOptions parse_kill_options(const std::vector<std::string>& arguments) {
  KillOptions options;
  CLI::App app("", "muster kill");
  app.set_help_flag();
  app.add_flag("-h,--help", options.help);
  app.add_flag("--json", options.json);
  app.add_flag("--now", options.now);
  std::optional<std::string> ranks;
  std::optional<std::string> signal;
  std::optional<std::string> grace;
  app.add_option("JOB", options.job);
  app.add_option("--rank", ranks);
  app.add_option("--signal", signal);
  app.add_option("--grace", grace);
  parse_flags(app, arguments);
  if (options.help) return options;
  if (options.job.starts_with('-'))
    throw UsageError(options.job + " is no flag; give --signal NAME, or --now to end the job with KILL");
  if (ranks) options.ranks = parse_ranks(*ranks);
  if (signal) options.signal = given_signal(*signal);
  if (grace) options.grace = parse_seconds({*grace, "--grace"}, false);
  check_kill(options, signal.has_value());
  return options;
}

std::string kill_help() {
  return std::string(kKillHelp) + kJobHelp + kKillCodes;
}

}  // namespace muster::launcher
