// SPDX-License-Identifier: Apache-2.0
// Judges over all ranks of a job whether it hangs, and which rank is the cause. Pure.
#pragma once

#include "rendezvous/core/flight_match.hpp"
#include "rendezvous/protocol/rank_health.hpp"

#include <string>
#include <vector>

namespace muster::rendezvous {

/// One rank for the verdict.
struct RankView {
  RankHealth health{};
  std::string host{};
  /// When anything of the rank has moved last, and since when it does what it does, on the judge's clock.
  TimePoint moved_at{};
  TimePoint since{};
};

struct HangVerdict {
  HangLevel level = HangLevel::none;
  /// The ranks that the others wait for, in order; all of them if they wait in different calls or lines for
  /// each other. Empty although the job hangs: all ranks agree, so it is the communication or the hardware.
  std::vector<int> culprits{};
  /// One line: "rank 3 on n1 (train.py:41 in load) is hung: it waits for a lock since 70 s; ranks 0-2, 4-7
  /// wait for all_reduce since 61 s". Empty with HangLevel::none.
  std::string text{};
  /// What the verdict says without its times: two with the same matter say the same.
  std::string matter{};
};

/// Judges a job whose ranks are exactly these.
///
/// No rank may have moved for `timeout` (0: no verdict at all), and at least one must be stopped, or wait for
/// other ranks or for a key of the store; otherwise the job is idle and not hung. The cause are the ranks
/// that are stopped; without any, those that wait for no other rank, those that have ended among them;
/// without any, the few that wait for something else than the majority, or for a member of a smaller group,
/// which then is who stands in another line than the rest; without a majority, those in an
/// earlier call of the same group, or whose messages do not match, or that wait for a key; else all of them.
/// `flights`, where flight recorders tell in which collective the ranks do not match: of ranks that all wait
/// for others the cause are those that are odd there, and a rank that computes, or of which nothing shows,
/// waits if it is in that collective, as with NCCL. Their texts follow the verdict's.
/// The job is hung if nobody computes and the cause waits for other ranks (if all agree, without CPU time),
/// for a lock, in one sleep, for helpers of which one is locked, or is stopped. In all other cases, a poll
/// among them, it may be: with NCCL a rank that waits for another computes.
HangVerdict judge_hang(const std::vector<RankView>& ranks, Milliseconds timeout, TimePoint now,
                       const std::vector<FlightMismatch>& flights = {});

}  // namespace muster::rendezvous
