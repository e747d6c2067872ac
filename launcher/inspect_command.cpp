// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect_command.hpp"

#include "agent/process/stop_file.hpp"
#include "launcher/cli/inspect_options.hpp"
#include "launcher/console/console_folder.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/files/ends_within.hpp"
#include "launcher/inspect/ask_jobs.hpp"
#include "launcher/inspect/core/host_jobs.hpp"
#include "launcher/inspect/core/job_text.hpp"
#include "launcher/inspect/ended_folder.hpp"
#include "launcher/inspect/job_client.hpp"
#include "launcher/job_choice.hpp"
#include "launcher/job_spec/listed_hosts.hpp"
#include "launcher/standard_output.hpp"
#include "launcher/watch_command.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/wall_clock.hpp"
#include "rendezvous/log/colours.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <utility>

namespace muster::launcher {
namespace {

int ps_of_hosts(const InspectOptions& options, const agent::SignalState& signals) {
  const std::vector<HostJobs> hosts =
      ask_jobs(listed_hosts(options.hosts), options.remote, options.all, MUSTER_VERSION, signals);
  print(options.json ? host_jobs_json(hosts) : host_jobs_text(hosts));
  int code = kExitSuccess;
  for (const HostJobs& host : hosts) {
    if (host.trouble.empty()) continue;
    std::fputs(for_screen(STDERR_FILENO, "muster: error: " + for_terminal(host.trouble) + "\n").c_str(),
               stderr);
    code = kExitNotRunning;
  }
  return code;
}

int ps(const InspectOptions& options) {
  std::vector<JobCard> cards;
  for (FoundJob& job : running_jobs()) cards.push_back(std::move(job.card));
  std::vector<EndedJob> ended;
  if (options.all) ended = find_ended(folder_of_jobs(), wall_clock_ms());
  if (!options.json)
    return print(options.all ? all_jobs_table(cards, ended, wall_clock_ms())
                             : jobs_table(cards, wall_clock_ms()));
  std::vector<std::string> lines;
  lines.reserve(cards.size() + ended.size());
  for (const JobCard& card : cards) lines.push_back(to_json(card));
  for (const EndedJob& job : ended) lines.push_back(to_json(job));
  return print("[" + (lines.empty() ? "" : "\n" + joined(lines, ",\n") + "\n") + "]\n");
}

int show_ended(const InspectOptions& options, const EndedJob& job) {
  return print(options.json ? status_json(job) + "\n" : ended_text(job, wall_clock_ms()));
}

/// Removes consoles of detached jobs that have ended; returns how many.
std::size_t clean_consoles() {
  const std::string base = folder_of_consoles();
  try {
    check_folder_answers("consoles of detached jobs are left in", base);
    return remove_old_consoles(base, wall_clock_ms());
  } catch (const LaunchError& error) {
    log_warning(error.what());
    return 0;
  }
}

/// Removes what jobs that have ended have left, and nothing of those that run.
int clean() {
  std::string trouble;
  std::size_t folders = 0;
  find_jobs(folder_of_jobs(), trouble, &folders);
  if (!trouble.empty()) log_warning("not all could be looked at: " + trouble);
  folders += agent::remove_left_stop_folders();
  const std::size_t records = remove_ended(folder_of_jobs());
  const std::size_t consoles = clean_consoles();
  return print("removed " + std::to_string(records) + (records == 1 ? " record" : " records") +
               " of jobs that have ended, and " + std::to_string(folders) +
               (folders == 1 ? " folder" : " folders") + " of jobs whose processes were killed" +
               (consoles == 0   ? ""
                : consoles == 1 ? ", and 1 console of a detached job"
                                : ", and " + std::to_string(consoles) + " consoles of detached jobs") +
               "\n");
}

int ask(const InspectOptions& options, bool stacks) {
  const ChosenJob chosen = choose_job(options.job);
  if (chosen.ended && !stacks) return show_ended(options, *chosen.ended);
  const FoundJob job = chosen.running ? *chosen.running : running_job(options.job);
  agent::NodeQuery query;
  query.stacks = stacks;
  query.helpers = options.helpers;
  query.native = options.native;
  query.ranks = options.ranks;
  try {
    const std::string line = ask_job(job.socket, query, kAnswerAtMost);
    if (options.json) return options.watch ? watch_job(job, query, options, line) : print(line + "\n");
    const JobAnswer answer = job_answer_from_json(line);
    check_ranks(options.ranks, answer);
    if (options.watch) return watch_job(job, query, options, line);
    return print(stacks ? stacks_text(answer) : status_text(answer));
  } catch (const NoAnswer& error) {
    throw not_running(job, error.what());
  } catch (const std::invalid_argument& error) {
    throw unreadable(job, error.what());
  }
}

}  // namespace

bool is_inspect_command(const std::string& command) {
  return command == "ps" || command == "status" || command == "stacks" || command == "clean";
}

int inspect_command(const std::string& command, const std::vector<std::string>& arguments,
                    const agent::SignalState& at_start) {
  const InspectOptions options = parse_inspect_options(command, arguments);
  if (options.help) return print(inspect_help(command));
  if (command == "clean") return clean();
  if (!options.hosts.empty()) return ps_of_hosts(options, at_start);
  return command == "ps" ? ps(options) : ask(options, command == "stacks");
}

}  // namespace muster::launcher
