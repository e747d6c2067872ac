// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/inspect_options.hpp"

#include "launcher/cli/parse_flags.hpp"
#include "launcher/cli/remote_flags.hpp"
#include "launcher/cli/value_syntax.hpp"
#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/time_unit.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>

namespace muster::launcher {
namespace {

constexpr const char* kPsHelp =
    "Usage: muster ps [-a] [-H HOSTS] [--json]\n"
    "\n"
    "Lists the running jobs of this user whose 'muster run' is on this host, or on one of HOSTS.\n"
    "\n"
    "  -h, --help              Print this text\n"
    "  -a, --all               Also those that have ended within the last day, the last hundred\n"
    "  -H, --host HOSTS        Of these hosts, listed as for 'muster run': n0,n[1-3],ada@n4:2222\n"
    "  --json                  The same as a list of JSON objects\n";
constexpr const char* kPsExitCodes =
    "\n"
    "Exit codes: 0 success; 2 usage; 3 a host did not answer: it is named, and the rest is shown.\n";
constexpr const char* kStatusHelp =
    "Usage: muster status [JOB] [--rank LIST] [--watch [SECONDS]] [--json]\n"
    "\n"
    "Says what a running job, its nodes and each of its ranks do: whether the job is hung, CPU time,\n"
    "memory, GPU, the step that the program has told, the time since its last output, and what it does\n"
    "now: moves, computes, or waits for whom or what, since when and in which line. Of a job that has\n"
    "ended within the last day it says how.\n"
    "\n"
    "  -h, --help          Print this text\n"
    "  --rank LIST         These ranks only: 0,2,8-11\n"
    "  --watch [SECONDS]   Look again each 2 s (0.1 to 3600) until Ctrl-C or the end of the job. On a\n"
    "                      terminal one picture that changes, without colours where NO_COLOR is set;\n"
    "                      elsewhere one after the other, separated by an empty line\n"
    "  --json              The answer as JSON; with --watch one object a line\n"
    "\n";
constexpr const char* kCleanHelp =
    "Usage: muster clean\n"
    "\n"
    "Removes the records of jobs of this user that have ended on this host, which 'muster ps -a' lists,\n"
    "and the folders of jobs whose 'muster run' was killed, and consoles of detached jobs that ended more\n"
    "than a day ago. Running jobs, reports and log files stay.\n"
    "\n"
    "  -h, --help          Print this text\n"
    "\n"
    "Exit codes: 0 success; 2 usage.\n";
constexpr const char* kStacksHelp =
    "Usage: muster stacks [JOB] [--rank LIST] [--helpers] [--native] [--json]\n"
    "\n"
    "Prints where each rank of a running job is in its Python code. No process is stopped, but with\n"
    "--native, and no code runs in one. Ranks in the same calls are one entry.\n"
    "\n"
    "  -h, --help          Print this text\n"
    "  --rank LIST         These ranks only: 0,2,8-11\n"
    "  --helpers           Look also at the Python programs that a rank has started, as DataLoader does\n"
    "  --native            Print the stacks of machine code, too, of every thread, and with --helpers of\n"
    "                      any program that a rank has started. Stops each thread while its registers and\n"
    "                      stack are copied, usually for less than a millisecond; needs elfutils (package\n"
    "                      libdw1) where the rank runs\n"
    "  --json              The answer as JSON, with every thread\n"
    "\n";
constexpr const char* kExitCodes =
    "Exit codes: 0 success; 1 no such job; 2 usage; 3 the job does not answer; 125 its answer cannot be\n"
    "read or printed. A node that does not answer within 3 s is named, and the rest is shown.\n";

/// Adds the ranks of "4" or "8-11". False for anything else.
bool add_ranks(std::string_view item, std::set<int>& ranks) {
  const std::size_t dash = item.find('-');
  const auto first = parse_number<int>(item.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_number<int>(item.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= rendezvous::kMaxWorkersPerNode)
    return false;
  for (int rank = *first; rank <= *last; ++rank) ranks.insert(rank);
  return true;
}

/// Whether a word is meant for --watch: "2", "0.5", "5s". No "2d": ids of jobs begin so, and it is too long.
bool is_interval(std::string_view word) {
  const std::string_view unit = word.substr(std::min(word.find_first_not_of("0123456789."), word.size()));
  return unit.size() < word.size() && unit != "d" && (unit.empty() || milliseconds_of(unit));
}

/// Gives each --watch a value, so that a job behind it is not taken for one.
std::vector<std::string> with_watch_value(const std::vector<std::string>& arguments) {
  constexpr const char* kUsual = "2";
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    words.push_back(arguments[i]);
    if (arguments[i] != "--watch") continue;
    const bool given = i + 1 < arguments.size() && is_interval(arguments[i + 1]);
    words.back() += std::string("=") + (given ? arguments[++i].c_str() : kUsual);
  }
  return words;
}

std::chrono::milliseconds parse_watch(const std::string& text) {
  constexpr std::chrono::milliseconds kLeast{100};
  constexpr std::chrono::hours kMost{1};
  const auto interval = parse_seconds({text, "--watch"}, true);
  if (interval < kLeast || interval > kMost)
    throw UsageError("--watch=" + text + " is out of range; give 0.1 to 3600 seconds");
  return interval;
}

}  // namespace

const char* const kJobHelp =
    "JOB is the id that 'muster ps' shows, the --name or the --rdzv-id of the job, or a beginning of its\n"
    "id or --name that no other job has. It may be left out where one job runs. Jobs are seen on the host\n"
    "of their 'muster run', by their own user. With one 'muster run' on each host (--nnodes), each is for\n"
    "its own node.\n"
    "\n";

std::vector<int> parse_ranks(std::string_view text) {
  if (text.empty()) throw UsageError("--rank has no value; give a list such as 0,2,8-11");
  std::set<int> ranks;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(item.size() == rest.size() ? item.size() : item.size() + 1);
    if (!add_ranks(item, ranks))
      throw UsageError("--rank=" + std::string(text) + ": '" + std::string(item) +
                       "' is no rank of a job; give a list such as 0,2,8-11");
  }
  return {ranks.begin(), ranks.end()};
}

InspectOptions parse_inspect_options(const std::string& command, const std::vector<std::string>& arguments) {
  InspectOptions options;
  CLI::App app("", "muster " + command);
  app.set_help_flag();
  app.add_flag("-h,--help", options.help);
  if (command != "clean") app.add_flag("--json", options.json);
  std::optional<std::string> ranks;
  if (command == "status" || command == "stacks") {
    app.add_option("JOB", options.job);
    app.add_option("--rank", ranks);
  }
  std::optional<std::string> hosts;
  RemoteFlags remote;
  if (command == "ps") {
    app.add_flag("-a,--all", options.all);
    app.add_option("-H,--host", hosts);
    remote.add_to(app);
  }
  if (command == "stacks") {
    app.add_flag("--helpers", options.helpers);
    app.add_flag("--native", options.native);
  }
  std::optional<std::string> watch;
  if (command == "status") app.add_option("--watch", watch);
  parse_flags(app, with_watch_value(arguments));
  if (options.help) return options;
  options.hosts = given_text(command, "--host", hosts);
  options.remote = remote.options(command);
  if (watch) options.watch = parse_watch(*watch);
  if (!ranks) return options;
  options.ranks = parse_ranks(*ranks);
  return options;
}

std::string inspect_help(const std::string& command) {
  if (command == "ps") return std::string(kPsHelp) + kRemoteFlagsHelp + kPsExitCodes;
  if (command == "clean") return kCleanHelp;
  return std::string(command == "status" ? kStatusHelp : kStacksHelp) + kJobHelp + kExitCodes;
}

}  // namespace muster::launcher
