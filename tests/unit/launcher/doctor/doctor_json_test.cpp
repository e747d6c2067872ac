// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/doctor_json.hpp"

#include "catch.hpp"
#include "launcher/doctor/core/python_answer.hpp"

#include <stdexcept>

using namespace muster::launcher;

namespace {

DoctorReport one_host() {
  HostFacts facts;
  facts.host = "n0";
  facts.version = "0.1.0";
  facts.folders = {{"/tmp", "", 5, 4, false, "x"}};
  facts.open_files = {1024, LimitFacts::kUnlimited};
  facts.gpu.infiniband = true;
  facts.keeping.old_folders = {"/tmp/muster-0/a"};
  facts.ptrace_scope = 1;
  DoctorReport report;
  report.hosts.push_back({"n0", facts, {{"/tmp", Verdict::problem, "4 bytes\xff", "make room"}}});
  return report;
}

}  // namespace

TEST_CASE("The facts that a host prints are read again, whatever its login shell printed before") {
  for (const char* const before : {"", "Welcome to n0\nyour quota is fine", "{\n  \"differences\": {\n"}) {
    CAPTURE(before);
    const HostFacts facts = facts_from_json(before + to_json(one_host()));
    CHECK(facts.host == "n0");
    REQUIRE(facts.folders.size() == 1);
    CHECK(facts.folders[0].free == 4);
    CHECK_FALSE(facts.folders[0].inodes_left);
    CHECK(facts.open_files.soft == 1024);
    CHECK(facts.open_files.hard == LimitFacts::kUnlimited);
    CHECK(facts.gpu.infiniband);
    CHECK(facts.keeping.old_folders == std::vector<std::string>{"/tmp/muster-0/a"});
    CHECK(facts.ptrace_scope == 1);
  }
  CHECK(to_json(one_host()).find("\"problems\": 1") != std::string::npos);
  CHECK(to_json(one_host()).find("\"verdict\": \"problem\"") != std::string::npos);
}

TEST_CASE("What is no report is refused") {
  std::string other = to_json(one_host());
  other.replace(other.find("muster.doctor"), 13, "muster.doctrx");
  std::string wrong = to_json(one_host());
  wrong.replace(wrong.find("\"mtu\": 0"), 8, "\"mtu\": []");
  DoctorReport silent;
  silent.hosts.push_back({"n0", std::nullopt, {}});
  for (const std::string& text : {std::string(), std::string("muster: error"), other, wrong, to_json(silent),
                                  to_json(DoctorReport{}), to_json(one_host()).substr(0, 200)})
    CHECK_THROWS_AS(facts_from_json(text), std::invalid_argument);
}

TEST_CASE("An interpreter's answer is its last line, and else the last word of its stderr says why") {
  PythonFacts facts;
  take_python_answer(
      "noise\n\n{\"version\": \"3.12.1\", \"executable\": \"/p\", \"torch\": \"2.5\", \"nccl\": \"2.21\"}\n",
      "a warning\n", facts);
  CHECK(facts.version == "3.12.1");
  CHECK(facts.executable == "/p");
  CHECK(facts.torch == "2.5");
  CHECK(facts.nccl == "2.21");
  CHECK(facts.error.empty());
  take_python_answer("{\"version\": 3}", "Traceback:\nSyntaxError: invalid syntax\n", facts);
  CHECK(facts.version.empty());
  CHECK(facts.error == "SyntaxError: invalid syntax");
  take_python_answer("", "", facts);
  CHECK(facts.error == "it printed no answer");
  take_python_answer("[]", "", facts);
  CHECK(facts.version.empty());
  take_python_answer("{\"version\": \"" + std::string(5000, '3') + "\"}", "", facts);
  CHECK(facts.version.size() == kPythonTextMax);
}

TEST_CASE("The last setting of logind's files counts, as systemd reads booleans") {
  CHECK(kill_user_processes_of({}).empty());
  CHECK(kill_user_processes_of({"[Login]\n#KillUserProcesses=yes\n"}).empty());
  CHECK(kill_user_processes_of({"[Login]\n KillUserProcesses = true \r\nHandleLidSwitch=x"}) == "yes");
  CHECK(kill_user_processes_of({"KillUserProcesses=yes", "KillUserProcesses=off\n\n"}) == "no");
  CHECK(kill_user_processes_of({"KillUserProcesses=yes\nKillUserProcesses="}).empty());
  CHECK(kill_user_processes_of({"KillUserProcessesX=yes\nKillUserProcesses"}).empty());
}
