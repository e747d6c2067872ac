// SPDX-License-Identifier: Apache-2.0
// A host on which all is well, and what one change of it makes of its findings.
#pragma once

#include "catch.hpp"
#include "launcher/doctor/core/findings.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster::launcher::doctor_test {

inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// A host on which all is well.
inline HostFacts healthy() {
  HostFacts facts;
  facts.host = "n0";
  facts.version = "0.1.0";
  facts.python.program = "python3";
  facts.python.found = true;
  facts.python.version = "3.11.2";
  facts.python.executable = "/usr/bin/python3";
  facts.python.torch = "2.4.1+cu121";
  facts.python.torch_cuda = "12.1";
  facts.python.nccl = "2.28.9";
  facts.found_cudnn = {"9.1.0", "12.4", "/p/libcudnn.so.9"};
  facts.network = {"n1", "10.0.0.5", "eth0", 9000, ""};
  facts.folders = {{"/dev/shm", "", 8 * kGiB, 8 * kGiB, true, ""},
                   {"/tmp", "", 90 * kGiB, 50 * kGiB, true, ""}};
  facts.open_files = {65536, 65536};
  facts.allowance = {8, 8, "", 64 * kGiB, ""};
  facts.ptrace_scope = 1;
  facts.gpu.on_bus = facts.gpu.count = 8;
  facts.gpu.driver = "550.54.15";
  facts.gpu.cuda = "12.4";
  return facts;
}

inline Finding find(const std::vector<Finding>& findings, const std::string& what) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&what](const Finding& finding) { return finding.what == what; });
  return found == findings.end() ? Finding{what, Verdict::problem, "NOT FOUND", ""} : *found;
}

using Change = std::function<void(HostFacts&)>;

/// What one change of a healthy host makes of one finding; the others stay as they are.
struct Row {
  const char* what;
  Verdict verdict;
  const char* found;
  const char* advice;
  Change change;
};

inline void check_rows(const std::vector<Row>& rows) {
  const std::vector<Finding> before = judge(healthy());
  for (const Row& row : rows) {
    HostFacts facts = healthy();
    row.change(facts);
    const std::vector<Finding> findings = judge(facts);
    const Finding finding = find(findings, row.what);
    INFO(row.what << ": " << finding.found << " -> " << finding.advice);
    CHECK(finding.verdict == row.verdict);
    CHECK(finding.found.find(row.found) != std::string::npos);
    CHECK(finding.advice.find(row.advice) != std::string::npos);
    CHECK((finding.verdict == Verdict::ok) == finding.advice.empty());
    for (const Finding& other : before)
      if (other.what != finding.what) CHECK(find(findings, other.what) == other);
  }
}

}  // namespace muster::launcher::doctor_test
