// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/inspect_options.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <CLI/CLI.hpp>

#include <optional>
#include <set>
#include <string_view>

namespace muster::launcher {
namespace {

constexpr const char* kPsHelp =
    "Usage: muster ps [--json]\n\n"
    "Lists the running jobs of this user whose 'muster run' is on this host.\n\n"
    "  -h, --help          Print this text\n"
    "  --json              The same as a list of JSON objects\n\n"
    "Exit codes: 0 success; 2 usage.\n";
constexpr const char* kStatusHelp =
    "Usage: muster status [JOB] [--rank LIST] [--json]\n\n"
    "Says what a running job, its nodes and each of its ranks do: CPU time, memory, the step that the "
    "program\n"
    "has told, state, and the call of a program that uses the SDK.\n\n"
    "  -h, --help          Print this text\n"
    "  --rank LIST         These ranks only: 0,2,8-11\n"
    "  --json              The answer as JSON\n\n";
constexpr const char* kStacksHelp =
    "Usage: muster stacks [JOB] [--rank LIST] [--helpers] [--json]\n\n"
    "Prints where each rank of a running job is in its Python code. No process is stopped, and no code runs "
    "in\n"
    "one. Ranks in the same calls are one entry.\n\n"
    "  -h, --help          Print this text\n"
    "  --rank LIST         These ranks only: 0,2,8-11\n"
    "  --helpers           Look also at the Python programs that a rank has started, as DataLoader does\n"
    "  --json              The answer as JSON, with every thread\n\n";
constexpr const char* kJobFooter =
    "JOB is the id that 'muster ps' shows, the --rdzv-id of the job, or a beginning of its id that no other "
    "job\n"
    "has. It may be left out where one job runs. Jobs are seen on the host of their 'muster run', by their "
    "own\n"
    "user. With one 'muster run' on each host (--nnodes), each shows its own node.\n\n"
    "Exit codes: 0 success; 1 no such job; 2 usage; 3 the job does not answer; 125 its answer cannot be "
    "read\n"
    "or printed. A node that does not answer within 3 s is named, and the rest is shown.\n";

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

std::vector<int> parse_ranks(std::string_view text) {
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

}  // namespace

InspectOptions parse_inspect_options(const std::string& command, const std::vector<std::string>& arguments) {
  InspectOptions options;
  CLI::App app("", "muster " + command);
  app.set_help_flag();
  app.add_flag("-h,--help", options.help);
  app.add_flag("--json", options.json);
  std::optional<std::string> ranks;
  if (command != "ps") {
    app.add_option("JOB", options.job);
    app.add_option("--rank", ranks);
  }
  if (command == "stacks") app.add_flag("--helpers", options.helpers);
  std::vector<std::string> stack(arguments.rbegin(), arguments.rend());  // CLI11 takes a stack
  try {
    app.parse(std::move(stack));
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; see 'muster " + command + " --help'");
  }
  if (options.help || !ranks) return options;
  if (ranks->empty()) throw UsageError("--rank has no value; give a list such as 0,2,8-11");
  options.ranks = parse_ranks(*ranks);
  return options;
}

std::string inspect_help(const std::string& command) {
  if (command == "ps") return kPsHelp;
  return std::string(command == "status" ? kStatusHelp : kStacksHelp) + kJobFooter;
}

}  // namespace muster::launcher
