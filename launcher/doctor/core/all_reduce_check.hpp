// SPDX-License-Identifier: Apache-2.0
// The short all_reduce over several hosts: which command runs it, and what its end says. Pure.
#pragma once

#include "launcher/core/node_plan.hpp"
#include "launcher/doctor/core/findings.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace muster::launcher {

/// What the collective may take, with the imports of PyTorch on all hosts: then the job ends by itself, and
/// says who waits for whom.
inline constexpr std::chrono::seconds kAllReduceAtMost{60};

/// Returns why the hosts of these reports cannot try an all_reduce: one host, one that was not reached, one
/// without PyTorch. Empty if they can.
std::string why_no_all_reduce(const std::vector<HostReport>& hosts);

/// Returns the command line of the job that tries it, with a worker on each host: `muster` and `python` are
/// paths, `run_flags` say how `muster run` reaches the hosts.
std::vector<std::string> all_reduce_command(const std::string& muster, const std::vector<NodePlan>& hosts,
                                            const std::vector<std::string>& run_flags,
                                            const std::string& python);

/// How that job ended; with `timed_out` it did not within kAllReduceAtMost and some seconds.
struct AllReduceEnd {
  std::string out;
  std::string errors;
  bool timed_out = false;
  int exit_code = 0;
};

/// Returns the finding "all_reduce". `hosts` is how many took part.
Finding judge_all_reduce(const AllReduceEnd& end, std::size_t hosts);

}  // namespace muster::launcher
