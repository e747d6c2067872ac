// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/job_choice.hpp"

#include "rendezvous/core/membership.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <utility>

namespace muster::rendezvous {
namespace {

/// The default of --rdzv-id, which every job without a name has; as the name of a job it would join all of
/// them into one.
constexpr const char* kDefaultName = "none";

JobChoice refusal(Errc code, std::string text) {
  return {JobChoice::Kind::refuse, code, std::move(text)};
}

std::string milliseconds(Milliseconds time) {
  return std::to_string(time.count()) + " ms";
}

/// The flags that must be the same on every node that meets at a daemon. No node runs the coordinator there:
/// its waits are those of whichever node came first, so that they must not differ either.
Settings flags_at_daemon(const JobLimits& limits) {
  Settings flags = shared_flags(limits);
  flags["--rdzv-conf join_timeout"] = milliseconds(limits.join_timeout);
  flags["--rdzv-conf last_call_timeout"] = milliseconds(limits.last_call_timeout);
  flags["--hang-timeout"] = milliseconds(limits.hang_timeout);
  flags["--on-hang"] = name_of(limits.on_hang);
  return flags;
}

}  // namespace

JobChoice choose_job(const Hello& hello, const KnownJob* job, std::size_t living) {
  if (hello.role == Role::observer && hello.run_id.empty()) return {JobChoice::Kind::observe};
  if (hello.role != Role::node)
    return refusal(Errc::mend,
                   "this is a daemon for jobs whose nodes are started on each host: it answers nodes, and "
                   "who asks for its own status, not for that of a job");
  if (hello.run_id.empty() || hello.run_id == kDefaultName)
    return refusal(Errc::mend, title_of(hello) +
                                   " names no job, and this daemon hosts several; give --rdzv-id NAME, the "
                                   "same on every node");
  const bool of_earlier_run = hello.session != 0 || !hello.nonce.empty();
  const bool makes_room = job != nullptr && (job->over || job->is_ghost) && !job->has_peer;
  if (of_earlier_run && job != nullptr) return {JobChoice::Kind::join};
  if (of_earlier_run)
    return refusal(Errc::job_over, title_of(hello) + " belongs to a run of job '" + hello.run_id +
                                       "' that is over, or that an earlier daemon hosted; end its agent and "
                                       "start it anew");
  if (!hello.limits)
    return refusal(Errc::upgrade, title_of(hello) +
                                      " does not say how many nodes its job has; install the same muster on "
                                      "it and on the daemon's host");
  if (job != nullptr && !makes_room) {
    const std::string text = difference(title_of(hello), flags_at_daemon(*hello.limits),
                                        job->stated_by + ", which opened job '" + hello.run_id + "',",
                                        flags_at_daemon(job->limits));
    return text.empty() ? JobChoice{JobChoice::Kind::join} : refusal(Errc::mend, text);
  }
  if (living >= kMaxHostedJobs)
    return refusal(Errc::environment,
                   "this daemon hosts " + std::to_string(living) +
                       " jobs, all that it may; wait until one of them has ended, or start "
                       "another daemon");
  return {JobChoice::Kind::create};
}

}  // namespace muster::rendezvous
