// SPDX-License-Identifier: Apache-2.0
// Judges the facts of hosts: what is well, what is worth knowing, what keeps jobs from running. Pure.
#pragma once

#include "launcher/doctor/core/host_facts.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

enum class Verdict : std::uint8_t {
  ok,
  note,     ///< jobs run, but something is slower, missing or different than usual
  problem,  ///< jobs fail, or will
};

struct Finding {
  std::string what;  ///< "torch", "/dev/shm"
  Verdict verdict = Verdict::ok;
  std::string found;   ///< "64 MiB, 63 MiB free"
  std::string advice;  ///< what to do; empty if all is well
  bool operator==(const Finding&) const = default;
};

struct HostReport {
  std::string name;
  std::optional<HostFacts> facts;  ///< none: the host could not be asked, and the finding says why
  std::vector<Finding> findings;
};

struct DoctorReport {
  std::vector<HostReport> hosts;
  std::vector<Finding> differences;
  /// What several hosts were made to do together.
  std::vector<Finding> tried;

  int count(Verdict verdict) const;
};

/// Returns one finding for each thing that is looked at, always in the same order.
std::vector<Finding> judge(const HostFacts& facts);

/// Returns what differs between the hosts that could be asked and should not: "0.1.0 on n0, n2; 0.2.0 on n1".
std::vector<Finding> compare(const std::vector<HostReport>& hosts);

}  // namespace muster::launcher
