// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor_command.hpp"

#include "agent/process/child_process.hpp"
#include "launcher/cli/doctor_options.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/doctor/ask_hosts.hpp"
#include "launcher/doctor/core/doctor_json.hpp"
#include "launcher/doctor/core/doctor_text.hpp"
#include "launcher/doctor/read_host.hpp"
#include "launcher/doctor/try_all_reduce.hpp"
#include "launcher/job_spec/listed_hosts.hpp"
#include "launcher/job_spec/real_system.hpp"
#include "launcher/standard_output.hpp"

#include <utility>

namespace muster::launcher {
namespace {

constexpr int kExitProblem = 1;

/// Returns the path of the interpreter that `muster run` would start here: workers elsewhere get our PATH, a
/// login there does not. Empty if there is none, and nobody named one.
std::string interpreter_here(const std::string& asked) {
  const RealSystem system;
  const std::string named = asked.empty() ? system.variable("PYTHON_EXEC").value_or("") : asked;
  const std::string path = agent::find_program(
      named.empty() ? "python3" : named, system.variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin"));
  return path.empty() ? named : path;
}

}  // namespace

int doctor_command(const std::vector<std::string>& arguments, const agent::SignalState& at_start) {
  const DoctorOptions options = parse_doctor_options(arguments);
  if (options.help) return print(doctor_help());
  HostQuestion question{options.python, options.towards, MUSTER_VERSION};
  DoctorReport report;
  if (options.hosts.empty()) {
    HostFacts facts = read_host(question, at_start);
    report.hosts.push_back({facts.host, std::move(facts), {}});
  } else {
    question.python = interpreter_here(options.python);
    const std::vector<NodePlan> nodes = listed_hosts(options.hosts);
    report.hosts = ask_hosts(nodes, options.remote, question, at_start);
    if (!options.no_all_reduce && nodes.size() > 1)
      report.tried.push_back(try_all_reduce(nodes, report.hosts, options.run_flags,
                                            options.remote.login_timeout, question.python, at_start));
  }
  for (HostReport& host : report.hosts)
    if (host.facts) host.findings = judge(*host.facts);
  report.differences = compare(report.hosts);
  print(options.json ? to_json(report) : doctor_text(report));
  return report.count(Verdict::problem) > 0 ? kExitProblem : kExitSuccess;
}

}  // namespace muster::launcher
