// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/ask_over_ssh.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/start/node_starter.hpp"
#include "launcher/start/program_run.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

namespace muster::launcher {
namespace {

/// Clients that run at a time.
constexpr std::size_t kHostsAtOnce = 32;

StartEnd start_end(const ProgramEnd& end) {
  StartEnd start;
  start.timed_out = end.timed_out;
  start.exit_code = end.exit_code;
  start.signal = end.signal;
  start.errors = end.errors;
  start.junk = end.out;
  return start;
}

void take_end(const NodeStarter& starter, std::size_t host, const ProgramEnd& end,
              const HostQuestions& questions) {
  try {
    questions.take(host, end.out);
  } catch (const std::invalid_argument& error) {
    if (end.out.size() >= kProgramOutputMax)
      return questions.fail(host,
                            {"its answer has more than " + std::to_string(kProgramOutputMax / 1024) + " KiB",
                             "ask for less, or on that host itself", false});
    // An earlier muster, which does not know the command, ends as for any wrong usage.
    const bool ran = !end.timed_out && end.signal == 0 && end.exit_code <= kExitUsage;
    questions.fail(host, ran ? StartFailure{error.what(), "install this version of muster there", false}
                             : starter.explain(host, start_end(end)));
  }
}

}  // namespace

void ask_over_ssh(const std::vector<NodePlan>& hosts, const std::vector<std::size_t>& places,
                  const HostQuestions& questions, const agent::SignalState& signals) {
  const std::unique_ptr<NodeStarter> starter =
      make_ssh_starter(hosts, questions.options, questions.version, signals);
  for (std::size_t first = 0; first < places.size(); first += kHostsAtOnce) {
    const std::size_t count = std::min(kHostsAtOnce, places.size() - first);
    std::vector<StartedProcess> clients;
    for (std::size_t i = 0; i < count; ++i) clients.push_back(starter->start(places[first + i]));
    const std::vector<ProgramEnd> ends =
        run_to_ends(std::move(clients), questions.options.login_timeout + questions.at_most);
    for (std::size_t i = 0; i < count; ++i) take_end(*starter, places[first + i], ends[i], questions);
  }
}

}  // namespace muster::launcher
