// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/core/findings.hpp"

#include "catch.hpp"
#include "launcher/doctor/core/doctor_text.hpp"
#include "tests/unit/launcher/doctor/healthy_host.hpp"

#include <set>

using namespace muster::launcher;
using namespace muster::launcher::doctor_test;

TEST_CASE("A healthy host has a row for each thing, and no advice") {
  const std::vector<Finding> findings = judge(healthy());
  std::set<std::string> names;
  for (const Finding& finding : findings) {
    CAPTURE(finding.what, finding.found);
    CHECK(finding.verdict == Verdict::ok);
    CHECK(finding.advice.empty());
    CHECK_FALSE(finding.found.empty());
    names.insert(finding.what);
  }
  CHECK(names.size() == findings.size());
  CHECK(find(findings, "Python").found == "3.11.2 (/usr/bin/python3)");
  CHECK(find(findings, "torch").found == "2.4.1+cu121, for CUDA 12.1");
  CHECK(find(findings, "GPUs").found == "8, driver 550.54.15 (CUDA 12.4)");
  CHECK(find(findings, "NCCL").found == "2.28.9 of torch");
  CHECK(find(findings, "network").found == "eth0 (10.0.0.5), MTU 9000, towards n1");
  CHECK(find(findings, "/dev/shm").found == "8.0 GiB free of 8.0 GiB");
  CHECK(find(findings, "ulimit -n").found == "65536");
  CHECK(find(findings, "ulimit -l").found == "unlimited");
}

TEST_CASE("The way to other hosts") {
  using F = HostFacts;
  constexpr auto kNote = Verdict::note;
  constexpr auto kProblem = Verdict::problem;
  check_rows({
      {"network", kProblem, "n1: no such name", "DNS",
       [](F& f) {
         f.network = {"n1", "", "", 0, "n1: no such name"};
       }},
      {"network", kProblem, "127.0.1.1", "/etc/hosts",
       [](F& f) {
         f.network = {"n1", "127.0.1.1", "lo", 65536, ""};
       }},
      {"network", kNote, "no route", "alone",
       [](F& f) {
         f.network = {"", "", "", 0, "no route to other hosts"};
       }},
  });
}

TEST_CASE("Room in folders") {
  using F = HostFacts;
  constexpr auto kNote = Verdict::note;
  constexpr auto kProblem = Verdict::problem;
  check_rows({
      {"/dev/shm", kProblem, "63 MiB free of 64 MiB", "--shm-size",
       [](F& f) {
         f.folders[0].total = 64U << 20;
         f.folders[0].free = 63U << 20;
       }},
      {"/dev/shm", kNote, "512 MiB free", "--shm-size", [](F& f) { f.folders[0].free = 512U << 20; }},
      {"/dev/shm", kProblem, "No such file", "--shm-size", [](F& f) { f.folders[0].error = "No such file"; }},
      {"/tmp", kProblem, "1.0 MiB free", "TMPDIR", [](F& f) { f.folders[1].free = 1U << 20; }},
      {"/tmp", kNote, "64 MiB free", "TMPDIR", [](F& f) { f.folders[1].free = 64U << 20; }},
      {"/tmp", kProblem, "no inode", "make room", [](F& f) { f.folders[1].inodes_left = false; }},
      {"TMPDIR", kProblem, "/scratch: Permission denied", "make room",
       [](F& f) {
         f.folders.push_back({"/scratch", "TMPDIR", 0, 0, true, "Permission denied"});
       }},
  });
}

TEST_CASE("The limits of the user") {
  using F = HostFacts;
  constexpr auto kNote = Verdict::note;
  constexpr auto kProblem = Verdict::problem;
  check_rows({
      {"ulimit -n", kNote, "1024 (at most 65536)", "'ulimit -n 4096'",
       [](F& f) { f.open_files.soft = 1024; }},
      {"ulimit -n", kProblem, "256", "limits.conf",
       [](F& f) {
         f.open_files = {256, 256};
       }},
      {"ulimit -u", kNote, "1000", "'ulimit -u 4096'", [](F& f) { f.processes.soft = 1000; }},
      {"ulimit -l", kProblem, "8.0 MiB", "memlock",
       [](F& f) {
         f.gpu.infiniband = true;
         f.locked_memory.soft = 8U << 20;
       }},
      {"ulimit -l", Verdict::ok, "8.0 MiB", "", [](F& f) { f.locked_memory.soft = 8U << 20; }},
  });
}

TEST_CASE("What control groups leave, and who may look") {
  using F = HostFacts;
  constexpr auto kNote = Verdict::note;
  check_rows({
      {"processors", kNote, "2 of 8, by the quota of cgroup '/box'", "OMP_NUM_THREADS",
       [](F& f) {
         f.allowance.processors = 2;
         f.allowance.quota_group = "/box";
       }},
      {"memory", kNote, "512 MiB, by the limit of cgroup '/box'", "raise",
       [](F& f) {
         f.allowance.memory = 512U << 20;
         f.allowance.memory_group = "/box";
       }},
      {"memory", Verdict::ok, "4.0 GiB, by the limit of cgroup '/box'", "",
       [](F& f) {
         f.allowance.memory = 4 * kGiB;
         f.allowance.memory_group = "/box";
       }},
      {"ptrace_scope", kNote, "2", "kernel.yama.ptrace_scope", [](F& f) { f.ptrace_scope = 2; }},
      {"ptrace_scope", Verdict::ok, "2", "",
       [](F& f) {
         f.ptrace_scope = 2;
         f.is_root = true;
       }},
      {"ptrace_scope", kNote, "3", "reboot",
       [](F& f) {
         f.ptrace_scope = 3;
         f.is_root = true;
       }},
      {"ptrace_scope", Verdict::ok, "none", "", [](F& f) { f.ptrace_scope = -1; }},
  });
}

TEST_CASE("What earlier jobs have left, and what ends processes") {
  using F = HostFacts;
  constexpr auto kNote = Verdict::note;
  constexpr auto kProblem = Verdict::problem;
  check_rows({
      {"old jobs", kNote, "/tmp/muster-0/a", "rm -r /tmp/muster-0/a /tmp/muster-0/b",
       [](F& f) {
         f.keeping.old_folders = {"/tmp/muster-0/a", "/tmp/muster-0/b"};
       }},
      {"old jobs", kProblem, "belongs to user 7", "muster ps",
       [](F& f) { f.keeping.folder_trouble = "/tmp/muster-0 belongs to user 7"; }},
      {"logind", kNote, "KillUserProcesses=yes", "enable-linger",
       [](F& f) { f.keeping.kill_user_processes = "yes"; }},
      {"logind", Verdict::ok, "linger", "",
       [](F& f) {
         f.keeping.kill_user_processes = "yes";
         f.keeping.lingers = true;
       }},
      {"logind", Verdict::ok, "KillUserProcesses=no", "", [](F& f) { f.keeping.kill_user_processes = "no"; }},
  });
}

TEST_CASE("What should be the same on all hosts is named with its hosts where it is not") {
  const auto host = [](const std::string& name, const Change& change) {
    HostFacts facts = healthy();
    change(facts);
    return HostReport{name, facts, {}};
  };
  const auto same = [](HostFacts&) {};
  CHECK(compare({host("n0", same), host("n1", same), {"n2", std::nullopt, {}}}).empty());
  const std::vector<Finding> differences = compare({host("n0", same),
                                                    host("n1",
                                                         [](HostFacts& facts) {
                                                           facts.python.torch = "";
                                                           facts.network.mtu = 1500;
                                                         }),
                                                    host("n2", [](HostFacts& facts) {
                                                      facts.version = "0.2.0";
                                                      facts.network.mtu = 0;
                                                      facts.python.version = "3.11.9";
                                                    })});
  REQUIRE(differences.size() == 3);
  CHECK(differences[0].found == "0.1.0 on n0, n1; 0.2.0 on n2");
  CHECK(differences[0].verdict == Verdict::problem);
  CHECK(differences[1].found == "none on n1; 2.4.1+cu121 on n0, n2");
  CHECK(differences[1].verdict == Verdict::problem);
  CHECK(differences[2].found == "1500 on n1; 9000 on n0");
  CHECK(differences[2].verdict == Verdict::note);
}

TEST_CASE("The text has a line for each finding, what to do below it, and counts") {
  DoctorReport report;
  report.hosts.push_back({"n\x1b[2J", healthy(), {{"/tmp", Verdict::note, "a\nb", "make\x07room"}}});
  report.hosts.push_back(
      {"n1", std::nullopt, {{"login", Verdict::problem, "ssh: connection refused", "check it"}}});
  CHECK(doctor_text(report) ==
        "n\\x1b[2J\n"
        "  note     /tmp          a\\x0ab\n"
        "           -> make\\x07room\n"
        "n1\n"
        "  problem  login         ssh: connection refused\n"
        "           -> check it\n"
        "2 hosts: 1 problem, 1 note\n");
  report.hosts.resize(1);
  report.differences.push_back({"MTU", Verdict::note, "1 on a; 2 on b", "set one"});
  CHECK(
      doctor_text(report).ends_with("between the hosts\n  note     MTU           1 on a; 2 on b\n           "
                                    "-> set one\n1 host: 0 problems, 2 notes\n"));
}
