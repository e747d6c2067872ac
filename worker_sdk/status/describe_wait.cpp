// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/describe_wait.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdio>

namespace muster::status {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kDetailsMax = 3;
constexpr std::size_t kRangesMax = 8;

nanoseconds since(std::uint64_t begin, std::uint64_t now) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  return nanoseconds(now > begin ? static_cast<std::int64_t>(std::min(now - begin, kMost)) : 0);
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string in_group(const std::string& group) {
  return " of group '" + group + "'";
}

/// The text about the waiting ranks: "ranks 0-2 wait since 4.2 s".
std::string who_waits(const Wait& wait) {
  return name_ranks(wait.waiting) + (wait.waiting.size() == 1 ? " waits" : " wait") + " since " +
         readable(wait.longest);
}

/// The text about one rank: "rank 3 (process 4711) is stopped by a signal or a debugger, in no call, the last
/// was #11".
std::string describe_rank(const RankView& view, std::uint64_t now) {
  return "rank " + std::to_string(view.rank) + " (process " + std::to_string(view.pid) + ") is " +
         std::string(describe(view.process)) + ", " + activity(view, now);
}

std::string details(const std::vector<int>& which, const std::vector<RankView>& ranks, std::uint64_t now) {
  std::string text;
  std::size_t said = 0;
  for (const RankView& view : ranks) {
    if (std::find(which.begin(), which.end(), view.rank) == which.end()) continue;
    if (said++ == kDetailsMax) break;
    text += ". " + capital(describe_rank(view, now));
  }
  return text;
}

/// The ranks that are in the call and cannot go on.
std::vector<int> unable(const Wait& wait, const std::vector<RankView>& ranks) {
  std::vector<int> found;
  for (const RankView& view : ranks) {
    if (view.process != ProcessState::stopped && view.process != ProcessState::gone) continue;
    for (const GroupStatus& group : view.status.groups)
      if (group.name_hash == wait.name_hash && group.state == GroupState::in_call &&
          std::find(wait.waiting.begin(), wait.waiting.end(), view.rank) != wait.waiting.end())
        found.push_back(view.rank);
  }
  return found;
}

std::string describe_diverged(const Wait& wait) {
  std::string text = "the ranks of group '" + wait.group + "' make different calls: ";
  for (std::size_t i = 0; i < std::min(wait.versions.size(), kDetailsMax); ++i)
    text += (i > 0 ? "; " : "") + name_ranks(wait.versions[i].first) +
            (wait.versions[i].first.size() == 1 ? " is in " : " are in ") + describe(wait.versions[i].second);
  return text;
}

std::string others(int unseen) {
  if (unseen == 0) return "";
  return unseen == 1 ? " (1 rank cannot be seen from here)"
                     : " (" + std::to_string(unseen) + " ranks cannot be seen from here)";
}

std::string describe_joining(const Wait& wait) {
  const std::string who = wait.missing.empty() ? std::string("not all ranks") : name_ranks(wait.missing);
  return who + " never came to the group '" + wait.group + "'; " + who_waits(wait) + others(wait.unseen);
}

std::string describe_point_to_point(const Wait& wait) {
  const bool sends = wait.call.collective == Collective::send;
  const std::string whom = wait.missing.empty() ? "rank " + std::to_string(wait.call.root) + " of the group"
                                                : name_ranks(wait.missing);
  return name_ranks(wait.waiting) + " waits in " + brief(wait.call) + in_group(wait.group) +
         (sends ? " to " : " from ") + whom + ", tag " + std::to_string(wait.call.tag) + ", since " +
         readable(wait.longest);
}

}  // namespace

std::string readable(nanoseconds time) {
  const auto ns = time.count();
  char text[32];
  if (ns < 1'000'000)
    std::snprintf(text, sizeof text, "%.0f us", static_cast<double>(ns) / 1e3);
  else if (ns < 1'000'000'000)
    std::snprintf(text, sizeof text, ns < 10'000'000 ? "%.1f ms" : "%.0f ms", static_cast<double>(ns) / 1e6);
  else
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) / 1e9);
  return text;
}

std::string name_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks, kRangesMax);
}

std::string activity(const RankView& rank, std::uint64_t now_ns) {
  if (rank.status.phase == ProcessPhase::unclaimed) return "has not started its world";
  const GroupStatus* const group = current_group(rank.status);
  const bool failed = group != nullptr && group->state == GroupState::failed;
  if (rank.status.phase == ProcessPhase::finished && !failed) return "has ended its world";
  if (group == nullptr || (group->gone && !failed)) return "in no group";
  switch (group->state) {
    case GroupState::joining:
      return "joins the group '" + group->name + "' since " + readable(since(group->changed_ns, now_ns));
    case GroupState::in_call:
      return "in " + brief(group->call) + in_group(group->name) + " since " +
             readable(since(group->entered_ns, now_ns));
    case GroupState::failed:
      return group->call.sequence == 0 ? "could not join the group '" + group->name + "'"
                                       : "failed in " + brief(group->call) + in_group(group->name) + " " +
                                             readable(since(group->changed_ns, now_ns)) + " ago";
    case GroupState::idle:
    case GroupState::none:
      break;
  }
  if (group->completed == 0) return "in no call, and has made none in group '" + group->name + "'";
  return "in no call; the last was " + brief(group->call) + in_group(group->name) + ", done " +
         readable(since(group->changed_ns, now_ns)) + " ago";
}

std::string describe(const Wait& wait, const std::vector<RankView>& ranks, std::uint64_t now_ns) {
  const bool alone = is_point_to_point(wait.call.collective) && !wait.joining;
  std::string text;
  if (wait.joining) {
    text = describe_joining(wait);
  } else if (alone) {
    text = describe_point_to_point(wait);
  } else if (wait.diverged()) {
    text = describe_diverged(wait);
  } else if (!wait.missing.empty()) {
    text = name_ranks(wait.missing) + " never entered " + brief(wait.call) + in_group(wait.group) + "; " +
           who_waits(wait) + others(wait.unseen);
  } else {
    text = (wait.unseen > 0 ? "all ranks of this host are in " : "all ranks are in ") + brief(wait.call) +
           in_group(wait.group) + " since " + readable(wait.longest) + others(wait.unseen);
  }
  text += details(wait.missing, ranks, now_ns);
  if (!wait.joining) text += details(unable(wait, ranks), ranks, now_ns);
  return text;
}

std::vector<std::string> brief(const std::vector<RecentCall>& calls, const RankStatus& status,
                               std::uint64_t now_ns) {
  std::vector<std::string> lines;
  for (const RecentCall& recent : calls) {
    const auto group = std::find_if(
        status.groups.begin(), status.groups.end(),
        [&recent](const GroupStatus& candidate) { return candidate.name_hash == recent.name_hash; });
    std::string text = (group == status.groups.end() ? "(a group that is gone)" : group->name) + ": " +
                       muster::brief(recent.call);
    if (recent.state == CallState::running)
      text += ", running since " + readable(since(recent.entered_ns, now_ns));
    else if (recent.state == CallState::failed)
      text += ", failed after " + readable(since(recent.entered_ns, recent.finished_ns));
    else if (recent.finished_ns <= recent.entered_ns)
      text += ", less than a tick";  // quick calls are noted at the clock's last tick
    else
      text += ", " + readable(since(recent.entered_ns, recent.finished_ns));
    lines.push_back(std::move(text));
  }
  return lines;
}

}  // namespace muster::status
