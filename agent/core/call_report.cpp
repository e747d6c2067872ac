// SPDX-License-Identifier: Apache-2.0
#include "agent/core/call_report.hpp"

#include "worker_sdk/status/describe_wait.hpp"

#include <algorithm>

namespace muster::agent {
namespace {

using status::GroupState;
using status::ProcessPhase;
using status::RankView;
using status::Wait;

constexpr std::size_t kLinesMax = 6;
/// Most ranks whose last calls are quoted: the one that failed, and those that others waited for.
constexpr std::size_t kQuotedRanksMax = 4;
/// Most waits that are remembered as said: a program that makes groups without end must not fill our memory.
/// After that many, one may be said again.
constexpr std::size_t kSaidMax = 4096;

const char* word_for(const RankView& view, const status::GroupStatus* group) {
  if (view.status.phase == ProcessPhase::unclaimed) return "";
  if (group != nullptr && group->state == GroupState::failed) return "failed";
  if (view.status.phase == ProcessPhase::finished) return "ended";
  if (group == nullptr) return "idle";
  return group->state == GroupState::joining   ? "joining"
         : group->state == GroupState::in_call ? "in_call"
                                               : "idle";
}

WorkerCall call_of(const RankView& view, std::uint64_t now_ns) {
  WorkerCall call;
  const status::GroupStatus* const group = status::current_group(view.status);
  call.state = word_for(view, group);
  call.process = status::describe(view.process);
  call.text = status::activity(view, now_ns);
  call.step = view.status.step;
  if (group == nullptr) return call;
  call.group = group->name;
  call.completed = group->completed;
  const std::uint64_t begin = group->state == GroupState::in_call ? group->entered_ns : group->changed_ns;
  if (now_ns > begin) call.for_ms = static_cast<std::int64_t>((now_ns - begin) / 1'000'000);
  if (group->call.sequence == 0) return call;
  call.name = name_of(group->call.collective);
  call.sequence = group->call.sequence;
  return call;
}

/// Returns the ranks that a wait blames: those that are not there, else those that cannot go on.
std::vector<int> blamed(const Wait& wait, const std::vector<RankView>& ranks) {
  if (!wait.missing.empty()) return wait.missing;
  std::vector<int> found;
  for (const RankView& view : ranks)
    if (view.process == status::ProcessState::stopped || view.process == status::ProcessState::gone)
      found.push_back(view.rank);
  return found;
}

std::set<int> quoted_ranks(const std::vector<RankView>& ranks, const std::vector<Wait>& waits, int failed) {
  std::set<int> quoted;
  if (failed >= 0) quoted.insert(failed);
  for (const Wait& wait : waits)
    for (const int rank : blamed(wait, ranks))
      if (quoted.size() < kQuotedRanksMax) quoted.insert(rank);
  return quoted;
}

/// Adds stopped ranks that no wait names, because they hold the job up as well.
void add_stopped(CallReport& report, const std::vector<RankView>& ranks, const std::vector<Wait>& waits,
                 std::uint64_t now_ns) {
  for (const RankView& view : ranks) {
    if (view.process != status::ProcessState::stopped || report.lines.size() >= kLinesMax) continue;
    const bool named = std::any_of(waits.begin(), waits.end(), [&view, &ranks](const Wait& wait) {
      const std::vector<int> list = blamed(wait, ranks);
      return std::find(list.begin(), list.end(), view.rank) != list.end();
    });
    if (named) continue;
    std::string line = "rank " + std::to_string(view.rank) + " (process " + std::to_string(view.pid) +
                       ") is " + std::string(status::describe(view.process));
    if (view.status.phase != ProcessPhase::unclaimed) line += ", " + status::activity(view, now_ns);
    report.lines.push_back(std::move(line));
  }
}

}  // namespace

std::vector<Wait> WaitReporter::due(const std::vector<RankView>& ranks, std::uint64_t now_ns) {
  std::vector<Wait> found;
  for (Wait& wait : status::find_waits(ranks, now_ns)) {
    const auto limit = report_after_.value_or(wait.report_after);
    if (limit.count() == 0 || wait.longest < limit) continue;
    // Sends and receives have no number of their own: the rank that waits tells them apart.
    const int who = is_point_to_point(wait.call.collective) ? wait.waiting.front() : -1;
    if (said_.size() >= kSaidMax) said_.clear();
    if (said_.emplace(wait.name_hash, wait.joining, wait.call.sequence, who).second)
      found.push_back(std::move(wait));
  }
  return found;
}

CallReport make_call_report(const std::vector<RankView>& ranks,
                            const std::vector<std::vector<status::RecentCall>>& recent, int failed,
                            std::uint64_t now_ns) {
  CallReport report;
  const bool used = std::any_of(ranks.begin(), ranks.end(), [](const RankView& view) {
    return view.status.phase != ProcessPhase::unclaimed;
  });
  if (!used) {
    add_stopped(report, ranks, {}, now_ns);
    return report;
  }
  const std::vector<Wait> waits = status::find_waits(ranks, now_ns);
  for (std::size_t i = 0; i < std::min(waits.size(), kLinesMax); ++i)
    report.lines.push_back(status::describe(waits[i], ranks, now_ns));
  if (waits.size() > kLinesMax)
    report.lines.push_back("and " + std::to_string(waits.size() - kLinesMax) + " more waits");
  add_stopped(report, ranks, waits, now_ns);
  const std::set<int> quoted = quoted_ranks(ranks, waits, failed);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    WorkerCall& call = report.ranks[ranks[i].rank];
    call = call_of(ranks[i], now_ns);
    if (quoted.contains(ranks[i].rank) && i < recent.size())
      call.recent = status::brief(recent[i], ranks[i].status, now_ns);
  }
  return report;
}

}  // namespace muster::agent
