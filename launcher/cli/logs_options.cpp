// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/logs_options.hpp"

#include "launcher/cli/inspect_options.hpp"
#include "launcher/cli/parse_flags.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/text.hpp"

#include <CLI/CLI.hpp>

namespace muster::launcher {
namespace {

constexpr const char* kLogsHelp =
    "Usage: muster logs [JOB] [-f] [--rank LIST] [--round N] [--since TIME] [--timestamps] [--json]\n"
    "\n"
    "Shows what a detached job has printed (muster run --detach), its own messages, too: of a job that\n"
    "runs, or has ended within the last day. Of another job of one host it shows the log files that --tee\n"
    "or --redirects has written; they hold no times: of them --since leaves out those that were not\n"
    "written since.\n"
    "\n"
    "  -h, --help          Print this text\n"
    "  -f, --follow        Show what comes, until the job ends\n"
    "  --rank LIST         What these ranks have printed, and nothing of ours: 0,2,8-11\n"
    "  --round N           What was printed in this round, the first one is 0\n"
    "  --since TIME        Not what is older: 90s, 10m, 2h, 1d ago, or 2026-11-28T14:05 (Z: in UTC)\n"
    "  --timestamps        The time in UTC before each line; not of log files\n"
    "  --json              One JSON object a line\n"
    "\n";
constexpr const char* kLogsCodes =
    "Exit codes: 0 success; 1 no such job; 2 usage; 3 nothing of the job's output is kept here, or the\n"
    "console of a job that is followed has ended before the job; 125 it cannot be read or printed.\n";
constexpr const char* kAttachHelp =
    "Usage: muster attach [JOB] [--lines N] [--rank LIST]\n"
    "\n"
    "Shows the last lines of a running detached job and what comes, until it ends, and ends with its exit\n"
    "code. Any number of terminals may be attached, and none holds up the job.\n"
    "\n"
    "  Ctrl-C              Ends the job as Ctrl-C at its 'muster run' does; a second one without grace\n"
    "  Ctrl-\\              Leaves the job running\n"
    "\n"
    "  -h, --help          Print this text\n"
    "  --lines N           So many lines of what was printed before [100]\n"
    "  --rank LIST         What these ranks print, and nothing of ours: 0,2,8-11\n"
    "\n";
constexpr const char* kAttachCodes =
    "Exit codes: that of the job; 0 after Ctrl-\\; 1 no such job; 2 usage; 3 the job does not run, or is\n"
    "not detached; 125 the exit code is not known, or the output cannot be read or printed.\n";

constexpr int kRoundMost = 1 << 30;
constexpr int kLinesMost = 1'000'000;

int number_of(const std::string& flag, const std::string& text, int most) {
  const auto number = parse_number<int>(text);
  if (!number || *number > most || *number < 0)
    throw UsageError(flag + "=" + text + " is no number from 0 to " + std::to_string(most));
  return *number;
}

}  // namespace

LogsOptions parse_logs_options(const std::string& command, const std::vector<std::string>& arguments) {
  LogsOptions options;
  CLI::App app("", "muster " + command);
  app.set_help_flag();
  app.add_flag("-h,--help", options.help);
  app.add_option("JOB", options.job);
  std::optional<std::string> ranks;
  std::optional<std::string> round;
  std::optional<std::string> lines;
  app.add_option("--rank", ranks);
  if (command == "logs") {
    app.add_flag("-f,--follow", options.follow);
    app.add_option("--round", round);
    app.add_option("--since", options.since);
    app.add_flag("--timestamps", options.timestamps);
    app.add_flag("--json", options.json);
  } else {
    app.add_option("--lines", lines);
  }
  parse_flags(app, arguments);
  if (options.help) return options;
  if (ranks) options.ranks = parse_ranks(*ranks);
  if (round) options.round = number_of("--round", *round, kRoundMost);
  if (lines) options.lines = static_cast<std::size_t>(number_of("--lines", *lines, kLinesMost));
  if (options.json && options.timestamps)
    throw UsageError("--json and --timestamps contradict each other: each JSON object has its time");
  return options;
}

std::string logs_help(const std::string& command) {
  if (command == "attach") return std::string(kAttachHelp) + kJobHelp + kAttachCodes;
  return std::string(kLogsHelp) + kJobHelp + kLogsCodes;
}

}  // namespace muster::launcher
