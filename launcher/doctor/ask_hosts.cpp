// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/ask_hosts.hpp"

#include "launcher/doctor/core/doctor_json.hpp"
#include "launcher/start/ask_over_ssh.hpp"
#include "launcher/start/core/ssh_command.hpp"

#include <chrono>
#include <cstddef>
#include <optional>

namespace muster::launcher {
namespace {

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

/// Those hosts of `places` that are not this machine, some at a time: the facts of each, or why there are
/// none.
void ask_elsewhere(const std::vector<NodePlan>& hosts, const std::vector<std::size_t>& places,
                   const RemoteOptions& options, const std::string& version,
                   const agent::SignalState& signals, std::vector<HostReport>& reports) {
  HostQuestions questions{options, version, kDoctorAtMost, {}, {}};
  questions.take = [&](std::size_t host, const std::string& out) {
    reports[host] = {hosts[host].name, facts_from_json(out), {}};
  };
  questions.fail = [&](std::size_t host, const StartFailure& why) {
    reports[host] = {hosts[host].name, std::nullopt, {{"login", Verdict::problem, why.cause, why.advice}}};
  };
  ask_over_ssh(hosts, places, questions, signals);
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
    if (!elsewhere.empty()) ask_elsewhere(hosts, elsewhere, options, question.version, signals, reports);
  };
  if (!way_is_named && hosts.size() > 1) question.towards = hosts[1].ssh_target;
  ask(0, 1);
  if (!way_is_named) question.towards = reports[0].facts ? reports[0].facts->network.address : "";
  ask(1, hosts.size());
  return reports;
}

}  // namespace muster::launcher
