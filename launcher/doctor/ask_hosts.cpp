// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/ask_hosts.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/doctor/core/doctor_json.hpp"
#include "launcher/doctor/program_run.hpp"
#include "launcher/start/core/ssh_command.hpp"
#include "launcher/start/core/ssh_failure.hpp"
#include "launcher/start/node_starter.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <utility>

namespace muster::launcher {
namespace {

/// Clients that run at a time.
constexpr std::size_t kHostsAtOnce = 32;
/// What a host needs after the login: its interpreter and its name server may both be slow.
constexpr std::chrono::seconds kDoctorAtMost{20};

/// Returns what muster is told there. What no shell reads alike is left out: then the host's own defaults
/// count.
std::vector<std::string> words_for(const HostQuestion& question) {
  std::vector<std::string> words = {"doctor", "--json"};
  const auto add = [&words](const char* flag, const std::string& value) {
    if (!value.empty() && value.front() != '-' && can_be_named(value))
      words.insert(words.end(), {flag, value});
  };
  add("--python", question.python);
  add("--towards", question.towards);
  return words;
}

StartEnd start_end(const ProgramEnd& end) {
  StartEnd start;
  start.timed_out = end.timed_out;
  start.exit_code = end.exit_code;
  start.signal = end.signal;
  start.errors = end.errors;
  start.junk = end.out;
  return start;
}

/// The host's answer, or why there is none.
HostReport report_of(const NodeStarter& starter, std::size_t node, const std::string& name,
                     const ProgramEnd& end) {
  HostReport report{name, std::nullopt, {}};
  try {
    report.facts = facts_from_json(end.out);
  } catch (const std::invalid_argument& error) {
    // An earlier muster, which has no doctor, ends as for any wrong usage.
    const bool ran = !end.timed_out && end.signal == 0 && end.exit_code <= kExitUsage;
    const StartFailure failure =
        ran ? StartFailure{error.what(), "install this version of muster there", false}
            : starter.explain(node, start_end(end));
    report.findings.push_back({"login", Verdict::problem, failure.cause, failure.advice});
  }
  return report;
}

/// Those hosts of `places` that are not this machine, some at a time.
void ask_over_ssh(const std::vector<NodePlan>& hosts, const std::vector<std::size_t>& places,
                  const RemoteOptions& options, const std::string& version, const agent::SignalState& signals,
                  std::vector<HostReport>& reports) {
  const std::unique_ptr<NodeStarter> starter = make_ssh_starter(hosts, options, version, signals);
  for (std::size_t first = 0; first < places.size(); first += kHostsAtOnce) {
    const std::size_t count = std::min(kHostsAtOnce, places.size() - first);
    std::vector<StartedProcess> clients;
    for (std::size_t i = 0; i < count; ++i) clients.push_back(starter->start(places[first + i]));
    const std::vector<ProgramEnd> ends =
        run_to_ends(std::move(clients), options.login_timeout + kDoctorAtMost);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t node = places[first + i];
      reports[node] = report_of(*starter, node, hosts[node].name, ends[i]);
    }
  }
}

}  // namespace

std::vector<HostReport> ask_hosts(const std::vector<NodePlan>& hosts, RemoteOptions options,
                                  HostQuestion question, const agent::SignalState& signals) {
  std::vector<HostReport> reports(hosts.size());
  const bool way_is_named = !question.towards.empty();
  const auto ask = [&](std::size_t begin, std::size_t end) {
    std::vector<std::size_t> elsewhere;
    for (std::size_t i = begin; i < end; ++i) {
      if (hosts[i].local)
        reports[i] = {hosts[i].name, read_host(question, signals), {}};
      else
        elsewhere.push_back(i);
    }
    options.remote_words = words_for(question);
    if (!elsewhere.empty()) ask_over_ssh(hosts, elsewhere, options, question.version, signals, reports);
  };
  if (!way_is_named && hosts.size() > 1) question.towards = hosts[1].ssh_target;
  ask(0, 1);
  if (!way_is_named) question.towards = reports[0].facts ? reports[0].facts->network.address : "";
  ask(1, hosts.size());
  return reports;
}

}  // namespace muster::launcher
