// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/all_reduce_check.hpp"

#include "catch.hpp"
#include "tests/unit/launcher/doctor/healthy_host.hpp"

#include <algorithm>

using namespace muster::launcher;
using namespace muster::launcher::doctor_test;

namespace {

HostReport host_with_torch(const std::string& name, const std::string& torch) {
  HostReport report{name, healthy(), {}};
  report.facts->python.torch = torch;
  return report;
}

NodePlan host(const std::string& target, const std::string& user = {}, int port = 0) {
  NodePlan plan;
  plan.ssh_target = target;
  plan.user = user;
  plan.ssh_port = port;
  return plan;
}

}  // namespace

TEST_CASE("An all_reduce is tried where several hosts have PyTorch") {
  const HostReport one = host_with_torch("n0", "2.9.0");
  CHECK(why_no_all_reduce({one}) == "one host only");
  CHECK(why_no_all_reduce({one, host_with_torch("n1", "2.9.0")}).empty());
  CHECK(why_no_all_reduce({one, host_with_torch("n1", "")}) == "no torch on n1");
  CHECK(why_no_all_reduce({one, {"n1", std::nullopt, {}}}) == "n1 was not reached");
}

TEST_CASE("The job of an all_reduce has a worker on each host, and an end") {
  const std::vector<std::string> command = all_reduce_command(
      "/m", {host("n0"), host("n1", "ann", 2222), host("fe80::1")}, {"--ssh-command", "ssh -v"}, "/python");
  const auto at = std::find(command.begin(), command.end(), "--host");
  REQUIRE(at != command.end());
  CHECK(*(at + 1) == "n0,ann@n1:2222:,[fe80::1]");
  const std::vector<std::string> begin = {"/m", "run",           "--host", *(at + 1), "--nproc-per-node",
                                          "1",  "--ssh-command", "ssh -v"};
  CHECK(std::equal(begin.begin(), begin.end(), command.begin()));
  CHECK(std::find(command.begin(), command.end(), "--timeout") != command.end());
  REQUIRE(command.size() > 4);
  CHECK(std::vector<std::string>(command.end() - 4, command.end() - 1) ==
        std::vector<std::string>{"--no-python", "/python", "-c"});
}

TEST_CASE("What the job of an all_reduce printed is judged") {
  const auto judged = [](const std::string& out, const std::string& errors, int code,
                         bool timed_out = false) {
    return judge_all_reduce({out, errors, timed_out, code}, 3);
  };
  const std::string answer = "{\"muster_all_reduce\": \"gloo\", \"seconds\": 0.00314}\n";
  CHECK(judged("noise\n" + answer + "more\n", "", 0) ==
        Finding{"all_reduce", Verdict::ok, "1 MiB on 3 hosts with gloo in 3.1 ms", ""});
  for (const Finding& bad : {judged(answer, "", 1), judged(answer, "", 0, true), judged("", "", 0),
                             judged("{\"muster_all_reduce\": 1}\n", "", 0)}) {
    CHECK(bad.verdict == Verdict::problem);
    CHECK_FALSE(bad.advice.empty());
  }
  CHECK(judged("", "", 0, true).found == "the job did not end in time");
  CHECK(judged("", "", 1).found == "it said nothing");
  CHECK(judged("", "first\nlast\n", 1).found == "last");
  CHECK(judged("", "muster: exit code 1\n  root cause rank 1\nRuntimeError: refused\n\n", 1).found ==
        "root cause rank 1");
  CHECK(judged("", "muster: error: no host\n  root cause rank 1\n", 1).found == "muster: error: no host");
  CHECK(judged("", std::string(1000, 'x'), 1).found.size() == 300);
}
