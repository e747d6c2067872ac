// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs_command.hpp"

#include "agent/process/signal_state.hpp"
#include "launcher/cli/logs_options.hpp"
#include "launcher/console/console_folder.hpp"
#include "launcher/console/console_follower.hpp"
#include "launcher/console/log_files.hpp"
#include "launcher/console_view.hpp"
#include "launcher/files/ends_within.hpp"
#include "launcher/job_choice.hpp"
#include "launcher/standard_output.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/wall_clock.hpp"
#include "rendezvous/log/log.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <optional>
#include <utility>

namespace muster::launcher {
namespace {

/// Between two looks at log files that grow, and at whether their job is there.
constexpr std::chrono::milliseconds kLookAtLogsEvery{200};

/// Returns the card of the job that `text` names among those of which only their console is left, as when
/// their launcher was killed or their record removed.
std::optional<JobCard> card_of_console(const std::string& text) {
  std::optional<JobCard> best;
  NamedBy how = NamedBy::nothing;
  bool several = false;
  const std::string base = folder_of_consoles();
  check_folder_answers("consoles of earlier jobs cannot be looked for in", base);
  for (FoundConsole& console : find_consoles(base)) {
    const NamedBy found = named_by(console.card, text);
    if (found == NamedBy::nothing || found < how) continue;
    several = found == how && found == NamedBy::beginning;
    how = found;
    best = std::move(console.card);  // the last job of this name
    best->console = console.folder;
  }
  if (several) throw UsageError("'" + text + "' names several jobs that have ended; give a whole id");
  return best;
}

JobCard find_card(const std::string& text) {
  try {
    const ChosenJob chosen = choose_job(text);
    return chosen.running ? chosen.running->card : chosen.ended->card;
  } catch (const LaunchError& error) {
    if (error.exit_code() != kExitNoSuchJob || text.empty()) throw;
    if (auto card = card_of_console(text)) return *card;
    throw;
  }
}

RecordFilter filter_of(const LogsOptions& options) {
  RecordFilter filter{options.ranks, options.round, {}};
  if (options.since.empty()) return filter;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  const bool has_zone = ::localtime_r(&now, &local) != nullptr;
  filter.since_ms = parse_since(options.since, wall_clock_ms(), has_zone ? local.tm_gmtoff : 0);
  if (!filter.since_ms)
    throw UsageError("--since=" + options.since + " is no time; give 90s, 10m, 2h, 1d or 2026-11-28T14:05");
  return filter;
}

void show(ConsoleView& view) {
  if (!view.text().empty()) print(view.text());
  view.text().clear();
}

/// Shows the log files of a job that is not detached.
void show_log_files(const JobCard& card, const LogsOptions& options, LogFiles& files) {
  ConsoleView view(card, {}, {options.json, false});
  for (;;) {
    // What it has written before it ended is there afterwards.
    const bool goes_on = options.follow && still_runs(card);
    files.read([&view](const std::vector<ConsoleRecord>& records) {
      view.add(records);
      show(view);
    });
    if (!goes_on) break;
    ::poll(nullptr, 0, static_cast<int>(kLookAtLogsEvery.count()));
  }
  view.finish();
  show(view);
}

int show_files(const JobCard& card, const LogsOptions& options) {
  const std::string job = "job " + card.id + " is not detached";
  if (card.logs.empty())
    throw LaunchError(kExitNotRunning, job +
                                           ", and nothing of its output goes to files: it is where its "
                                           "'muster run' was started; give that --detach, or --tee 3");
  if (card.nodes != 1)
    throw LaunchError(kExitNotRunning, job + "; each host has its log files below " + card.logs +
                                           "; --gather-logs DIR brings them here at the end");
  if (options.timestamps)
    throw UsageError(job + ": its log files hold no times, so that --timestamps does not go; they are in " +
                     card.logs);
  check_folder_answers("the log files of the job cannot be read in", card.logs);
  LogFiles files(card.logs, filter_of(options));
  if (!options.since.empty())
    std::fprintf(stderr,
                 "muster: note: log files hold no times: those that were written since then are shown "
                 "whole\n");
  show_log_files(card, options, files);
  if (!files.found())
    throw LaunchError(kExitNotRunning, job + "; no such log file is left in " + card.logs +
                                           ", which is removed after success unless --log-dir is given");
  return kExitSuccess;
}

int show_console(const JobCard& card, const LogsOptions& options) {
  check_folder_answers("the console of the job cannot be read in", card.console);
  ConsoleFollower follower(card.console);
  ConsoleView view(card, filter_of(options), {options.json, options.timestamps});
  std::vector<ConsoleRecord> records;
  auto look_at = steady_now() + kLookAtJobEvery;
  std::optional<std::chrono::steady_clock::time_point> gone_at;
  for (;;) {
    records.clear();
    const bool has_more = follower.read(records);
    view.add(records);
    show(view);
    if (has_more) continue;
    if (!options.follow || view.has_ended()) break;
    if (steady_now() >= look_at) {
      look_at = steady_now() + kLookAtJobEvery;
      if (!gone_at && !still_runs(card)) gone_at = steady_now();
    }
    if (gone_at && steady_now() >= *gone_at + kConsoleOutlivesJob) break;
    ::poll(nullptr, 0, static_cast<int>(kLookAtConsoleEvery.count()));
  }
  view.finish();
  show(view);
  if (!options.follow || view.has_ended()) return kExitSuccess;
  throw LaunchError(kExitNotRunning,
                    "job " + card.id +
                        " has ended, and its console without a last line: its console process was "
                        "killed, or the disk of " +
                        card.console + " is full or silent");
}

}  // namespace

int logs_command(const std::vector<std::string>& arguments) {
  const LogsOptions options = parse_logs_options("logs", arguments);
  if (options.help) return print(logs_help("logs"));
  agent::ignore_signals_of_others();  // a reader that is gone is an error, which is told
  const JobCard card = find_card(options.job);
  return card.console.empty() ? show_files(card, options) : show_console(card, options);
}

}  // namespace muster::launcher
