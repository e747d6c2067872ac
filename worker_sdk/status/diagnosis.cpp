// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/diagnosis.hpp"

#include "muster/error.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace muster::status {
namespace {

using std::chrono::nanoseconds;

/// A rank in a group.
struct Member {
  const RankView* view;
  const GroupStatus* group;
};

bool is_inside(const GroupStatus& group) {
  if (group.torn) return false;  // the rank was between two calls
  return (group.state == GroupState::in_call && !group.gone) ||
         (group.state == GroupState::failed && group.call.sequence > 0);
}

/// The time between two points. It is signed, because times of another process may lie a moment ahead, and
/// those of a hostile process anywhere.
nanoseconds between(std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  return nanoseconds(end > begin ? static_cast<std::int64_t>(std::min(end - begin, kMost)) : 0);
}

nanoseconds waited(const GroupStatus& group, std::uint64_t now) {
  const std::uint64_t begin = group.state == GroupState::joining ? group.changed_ns : group.entered_ns;
  return between(begin, group.state == GroupState::failed ? group.changed_ns : now);
}

void add_waiting(Wait& wait, const Member& member, std::uint64_t now) {
  wait.waiting.push_back(member.view->rank);
  wait.longest = std::max(wait.longest, waited(*member.group, now));
  const auto wish = member.group->report_after;
  if (wish.count() > 0 && (wait.report_after.count() == 0 || wish < wait.report_after))
    wait.report_after = wish;
}

Wait wait_of(const GroupStatus& group) {
  Wait wait;
  wait.name_hash = group.name_hash;
  wait.group = group.name;
  wait.call = group.call;
  return wait;
}

/// Counts the ranks that should be in the call and cannot be named.
void count_unseen(Wait& wait, int size) {
  wait.unseen = std::max(0, size - static_cast<int>(wait.waiting.size() + wait.missing.size()));
}

/// The ranks that do not show a group of all ranks, although every rank is a member of such a group.
std::vector<int> strangers(const std::vector<RankView>& ranks, const std::vector<Member>& members, int size) {
  std::vector<int> found;
  for (const RankView& view : ranks) {
    const bool shows = std::any_of(members.begin(), members.end(),
                                   [&view](const Member& member) { return member.view == &view; });
    if (!shows && size == view.world_size) found.push_back(view.rank);
  }
  return found;
}

void find_joining(const std::vector<RankView>& ranks, const std::vector<Member>& members, int size,
                  std::uint64_t now, std::vector<Wait>& waits) {
  Wait wait = wait_of(*members.front().group);
  wait.joining = true;
  int joined = 0;
  for (const Member& member : members) {
    const GroupStatus& group = *member.group;
    if (group.state == GroupState::joining || (group.state == GroupState::failed && group.call.sequence == 0))
      add_waiting(wait, member, now);
    else
      ++joined;
  }
  if (wait.waiting.empty()) return;
  wait.missing = strangers(ranks, members, size);
  count_unseen(wait, size - joined);
  waits.push_back(std::move(wait));
}

void find_collective(const std::vector<RankView>& ranks, const std::vector<Member>& members, int size,
                     std::uint64_t now, std::vector<Wait>& waits) {
  const GroupStatus* newest = nullptr;
  for (const Member& member : members)
    if (is_inside(*member.group) && !is_point_to_point(member.group->call.collective) &&
        (newest == nullptr || member.group->call.sequence > newest->call.sequence))
      newest = member.group;
  if (newest == nullptr) return;
  Wait wait = wait_of(*newest);
  int done = 0;
  for (const Member& member : members) {
    const GroupStatus& group = *member.group;
    if (group.completed >= newest->call.sequence) {
      ++done;
      continue;
    }
    const bool here = is_inside(group) && group.call.sequence == newest->call.sequence &&
                      !is_point_to_point(group.call.collective);
    if (!here) {
      wait.missing.push_back(member.view->rank);
      continue;
    }
    add_waiting(wait, member, now);
    const auto alike =
        std::find_if(wait.versions.begin(), wait.versions.end(), [&group](const auto& version) {
          Call call = version.second;
          call.signature = group.call.signature;  // the signature is not in the file
          return same_call(call, group.call);
        });
    if (alike != wait.versions.end())
      alike->first.push_back(member.view->rank);
    else
      wait.versions.push_back({{member.view->rank}, group.call});
  }
  if (wait.waiting.empty()) return;
  for (const int rank : strangers(ranks, members, size)) wait.missing.push_back(rank);
  std::sort(wait.missing.begin(), wait.missing.end());
  count_unseen(wait, size - done);
  waits.push_back(std::move(wait));
}

/// Finds the waits in sends and receives, each of which waits for one rank.
void find_point_to_point(const std::vector<Member>& members, std::uint64_t now, std::vector<Wait>& waits) {
  for (const Member& member : members) {
    const GroupStatus& group = *member.group;
    if (!is_inside(group) || !is_point_to_point(group.call.collective)) continue;
    Wait wait = wait_of(group);
    add_waiting(wait, member, now);
    wait.versions.push_back({{member.view->rank}, group.call});
    for (const Member& other : members)
      if (other.group->rank == group.call.root) wait.missing.push_back(other.view->rank);
    wait.unseen = wait.missing.empty() ? 1 : 0;
    waits.push_back(std::move(wait));
  }
}

}  // namespace

std::vector<Wait> find_waits(const std::vector<RankView>& ranks, std::uint64_t now_ns) {
  std::map<std::uint64_t, std::vector<Member>> groups;
  for (const RankView& view : ranks)
    if (view.status.phase != ProcessPhase::unclaimed)
      for (const GroupStatus& group : view.status.groups) groups[group.name_hash].push_back({&view, &group});
  std::vector<Wait> waits;
  for (const auto& [hash, members] : groups) {
    int size = 0;
    for (const Member& member : members) size = std::max(size, member.group->size);
    find_joining(ranks, members, size, now_ns, waits);
    find_collective(ranks, members, size, now_ns, waits);
    find_point_to_point(members, now_ns, waits);
  }
  std::stable_sort(waits.begin(), waits.end(),
                   [](const Wait& a, const Wait& b) { return a.longest > b.longest; });
  if (waits.size() > kWaitsMax) waits.resize(kWaitsMax);
  return waits;
}

bool has_lost_another(const RankView& rank, std::uint64_t name_hash) {
  return std::any_of(rank.status.groups.begin(), rank.status.groups.end(),
                     [name_hash](const GroupStatus& group) {
                       return group.name_hash == name_hash && group.state == GroupState::failed &&
                              group.error_code == static_cast<int>(ErrorCode::peer_lost);
                     });
}

const RankView* find_culprit(const std::vector<const RankView*>& dead, std::uint64_t name_hash) {
  const auto first = std::find_if(dead.begin(), dead.end(), [name_hash](const RankView* rank) {
    return !has_lost_another(*rank, name_hash);
  });
  if (first != dead.end()) return *first;
  return dead.empty() ? nullptr : dead.front();
}

const GroupStatus* current_group(const RankStatus& status) {
  const auto weight = [](const GroupStatus& group) {
    const bool inside = group.state == GroupState::in_call || group.state == GroupState::joining;
    const bool alive = !group.gone || group.state == GroupState::failed;
    return std::tuple(alive && inside, alive, group.changed_ns);
  };
  const GroupStatus* current = nullptr;
  for (const GroupStatus& group : status.groups)
    if (current == nullptr || weight(group) > weight(*current)) current = &group;
  return current;
}

}  // namespace muster::status
