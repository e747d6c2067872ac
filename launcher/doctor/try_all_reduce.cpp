// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/try_all_reduce.hpp"

#include "launcher/core/launch_error.hpp"
#include "launcher/doctor/core/all_reduce_check.hpp"
#include "launcher/start/program_run.hpp"
#include "launcher/start/started_process.hpp"

#include <utility>

namespace muster::launcher {
namespace {

/// What the start, a stop after the limit and the report take beside it.
constexpr std::chrono::seconds kAround{15};

}  // namespace

Finding try_all_reduce(const std::vector<NodePlan>& hosts, const std::vector<HostReport>& reports,
                       const std::vector<std::string>& run_flags, std::chrono::milliseconds login_timeout,
                       const std::string& python, const agent::SignalState& signals) {
  if (const std::string why = why_no_all_reduce(reports); !why.empty())
    return {"all_reduce", Verdict::note, "not tried: " + why, "it needs two hosts with PyTorch"};
  try {
    std::vector<StartedProcess> started;
    started.push_back(spawn_client(all_reduce_command("/proc/self/exe", hosts, run_flags, python), signals));
    const ProgramEnd end =
        run_to_ends(std::move(started), login_timeout + kAllReduceAtMost + kAround).front();
    return judge_all_reduce(
        {end.out, end.errors, end.timed_out, end.signal != 0 ? 128 + end.signal : end.exit_code},
        hosts.size());
  } catch (const LaunchError& error) {
    return {"all_reduce", Verdict::problem, error.what(), "see above"};
  }
}

}  // namespace muster::launcher
