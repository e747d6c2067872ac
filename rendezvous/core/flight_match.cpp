// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/flight_match.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace muster::rendezvous {
namespace {

constexpr std::size_t kRangesInLine = 8;

/// One group as all of its ranks know it that have told.
struct Meeting {
  std::string name{};
  std::vector<int> members{};
  std::vector<std::pair<int, const FlightGroup*>> known{};

  const FlightCall* call_of(const FlightGroup& group, std::uint64_t sequence) const {
    const auto found = std::find_if(group.calls.begin(), group.calls.end(),
                                    [=](const FlightCall& call) { return call.sequence == sequence; });
    return found == group.calls.end() ? nullptr : &*found;
  }
};

std::string ranks_of(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks, kRangesInLine);
}

/// Whether ranks may have buffers of different sizes in a call.
bool sizes_may_differ(const std::string& name, bool of_inputs) {
  if (name == "all_to_all" || name == "all_to_all_single") return true;
  return name == (of_inputs ? "scatter" : "gather");
}

/// What of a call has to be the same on all ranks, the most telling first.
struct Aspect {
  const char* what = "";
  std::string (*of)(const FlightCall&) = nullptr;
};

constexpr const char* kStateWords = "state ";

constexpr Aspect kAspects[] = {
    {"", [](const FlightCall& call) { return call.name; }},
    {"input sizes ",
     [](const FlightCall& call) { return sizes_may_differ(call.name, true) ? std::string() : call.inputs; }},
    {"output sizes ",
     [](const FlightCall& call) {
       return sizes_may_differ(call.name, false) ? std::string() : call.outputs;
     }},
    {"types ",
     [](const FlightCall& call) {
       return call.name == "scatter" || call.name == "broadcast" ? std::string() : call.types;
     }},
    {kStateWords, [](const FlightCall& call) { return call.state; }},
};

/// "rank 3 has input sizes [[4]], ranks 0-2 have [[8]]", and the few that differ from the rest, if there are
/// fewer of them; nullopt if all have the same.
std::optional<FlightMismatch> difference(const Meeting& meeting, std::uint64_t sequence,
                                         const Aspect& aspect) {
  std::map<std::string, std::vector<int>> values;
  for (const auto& [rank, group] : meeting.known)
    if (const FlightCall* call = meeting.call_of(*group, sequence)) values[aspect.of(*call)].push_back(rank);
  if (values.size() < 2) return std::nullopt;
  std::vector<std::pair<std::string, std::vector<int>>> parts(values.begin(), values.end());
  // The few are the ones to look at.
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  FlightMismatch found;
  found.text = joined_by(
      parts,
      [&aspect](const auto& part) {
        const std::string verb = part.second.size() == 1 ? " has " : " have ";
        return ranks_of(part.second) + verb + aspect.what + (part.first.empty() ? "none" : part.first);
      },
      ", ", 4);
  if (std::string_view(aspect.what) == kStateWords) {
    // Those whose stream has not reached the call, and not those that wait in it.
    if (const auto held_up = values.find("scheduled"); held_up != values.end()) found.odd = held_up->second;
    return found;
  }
  std::size_t others = 0;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) others += parts[i].second.size();
  if (others >= parts.back().second.size()) return found;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i)
    found.odd.insert(found.odd.end(), parts[i].second.begin(), parts[i].second.end());
  std::sort(found.odd.begin(), found.odd.end());
  return found;
}

std::string name_in(const Meeting& meeting, std::uint64_t sequence) {
  for (const auto& [rank, group] : meeting.known)
    if (const FlightCall* call = meeting.call_of(*group, sequence)) return call->name;
  return "call";
}

/// What is said of one group; nullopt if its ranks match.
std::optional<FlightMismatch> judge(const Meeting& meeting) {
  // The first collective that a rank has begun and not completed.
  std::optional<std::uint64_t> first;
  for (const auto& [rank, group] : meeting.known)
    if (!group->calls.empty())
      first = std::min(first.value_or(group->calls.front().sequence), group->calls.front().sequence);
  if (!first) return std::nullopt;
  FlightMismatch found;
  std::vector<int> absent;
  std::set<int> told;
  for (const auto& [rank, group] : meeting.known) {
    // It has lost its calls, as those of other groups took their places, or it may have: it was in the
    // collectives before this one.
    if (group->last == 0 && (*first > 1 || !group->whole)) continue;
    told.insert(rank);
    if (group->last < *first) absent.push_back(rank);
    if (meeting.call_of(*group, *first) != nullptr) found.waiting.push_back(rank);
  }
  std::vector<int> untold;
  for (const int member : meeting.members)
    if (told.count(member) == 0) untold.push_back(member);
  const std::string call =
      name_in(meeting, *first) + " " + std::to_string(*first) + " of group " + meeting.name;
  const std::string wait = ranks_of(found.waiting) + (found.waiting.size() == 1 ? " waits" : " wait");
  if (!absent.empty()) {
    found.text = ranks_of(absent) + " never entered " + call + "; " + wait + " in it";
    std::sort(absent.begin(), absent.end());
    found.odd = std::move(absent);
    return found;
  }
  for (const Aspect& aspect : kAspects)
    if (auto differ = difference(meeting, *first, aspect)) {
      differ->text = call + ": " + differ->text;
      differ->waiting = std::move(found.waiting);
      return differ;
    }
  if (untold.empty()) return std::nullopt;
  found.text = wait + " in " + call + "; there is no flight record of " + ranks_of(untold);
  found.unknown = true;
  return found;
}

}  // namespace

std::vector<FlightMismatch> find_flight_mismatches(const std::vector<const FlightRank*>& ranks) {
  std::map<std::pair<std::string, std::vector<int>>, Meeting> meetings;
  for (const FlightRank* const rank : ranks)
    for (const FlightGroup& group : rank->groups) {
      Meeting& meeting = meetings[{group.id, group.ranks}];
      meeting.name = group.name;
      meeting.members = group.ranks;
      meeting.known.emplace_back(rank->rank, &group);
    }
  std::vector<FlightMismatch> found;
  for (const auto& [key, meeting] : meetings)
    if (auto mismatch = judge(meeting); mismatch && found.size() < kFlightLinesMax)
      found.push_back(std::move(*mismatch));
  return found;
}

std::vector<FlightMismatch> find_flight_mismatches(const std::vector<FlightRank>& ranks) {
  std::vector<const FlightRank*> all;
  all.reserve(ranks.size());
  for (const FlightRank& rank : ranks) all.push_back(&rank);
  return find_flight_mismatches(all);
}

std::size_t memory_of(const FlightRank& record) {
  std::size_t bytes = sizeof record;
  for (const FlightGroup& group : record.groups) {
    bytes += sizeof group + group.name.size() + group.id.size() + group.ranks.size() * sizeof(int);
    for (const FlightCall& call : group.calls)
      bytes += sizeof call + call.name.size() + call.inputs.size() + call.outputs.size() + call.types.size() +
               call.state.size();
  }
  return bytes;
}

std::vector<std::string> match_flight_records(const std::vector<FlightRank>& ranks) {
  std::vector<std::string> lines;
  for (FlightMismatch& mismatch : find_flight_mismatches(ranks)) lines.push_back(std::move(mismatch.text));
  return lines;
}

}  // namespace muster::rendezvous
