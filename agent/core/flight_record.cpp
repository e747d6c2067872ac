// SPDX-License-Identifier: Apache-2.0
#include "agent/core/flight_record.hpp"

#include "agent/core/pickle_reader.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace muster::agent {
namespace {

using Value = Pickle::Value;

constexpr std::size_t kNameBytes = 80;
constexpr std::size_t kSizesBytes = 120;
constexpr int kSizesDepth = 3;
constexpr std::size_t kRangesInText = 8;

std::string cut(std::string_view text, std::size_t most) {
  std::string kept(text.substr(0, most));
  std::replace_if(
      kept.begin(), kept.end(), [](char c) { return c < ' ' || c == '\x7f'; }, '?');
  return kept.size() < text.size() ? kept + "..." : kept;
}

/// Writes lists of numbers and texts as Python prints them.
void write(const Pickle& pickle, Value value, int depth, std::string& text) {
  if (text.size() > kSizesBytes) return;
  if (pickle.kind(value) == Pickle::Kind::integer) {
    text += std::to_string(pickle.integer(value));
  } else if (pickle.kind(value) == Pickle::Kind::text) {
    text += pickle.text(value);
  } else if (pickle.kind(value) == Pickle::Kind::list && depth > 0) {
    text += "[";
    for (std::size_t i = 0; i < pickle.items(value).size() && text.size() <= kSizesBytes; ++i) {
      if (i > 0) text += ", ";
      write(pickle, pickle.items(value)[i], depth - 1, text);
    }
    text += "]";
  }
}

std::string list_text(const Pickle& pickle, Value value) {
  std::string text;
  write(pickle, value, kSizesDepth, text);
  return cut(text, kSizesBytes);
}

/// The members in "[0, 1, 2]", as a text or as a list of numbers; none if it is neither, or too long.
std::vector<int> members_of(const Pickle& pickle, Value value) {
  std::vector<int> ranks;
  if (pickle.items(value).size() <= kFlightMembersMax)
    for (const Value item : pickle.items(value)) ranks.push_back(static_cast<int>(pickle.integer(item, -1)));
  std::string_view text = pickle.text(value);
  while (!text.empty() && ranks.size() <= kFlightMembersMax) {
    const std::size_t begin = std::min(text.find_first_of("0123456789"), text.size());
    const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    if (const auto rank = parse_number<int>(text.substr(begin, end - begin))) ranks.push_back(*rank);
    text.remove_prefix(end);
  }
  if (ranks.size() > kFlightMembersMax) ranks.clear();
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// "all_reduce" of "nccl:all_reduce".
std::string call_name(std::string_view name) {
  const std::size_t colon = name.find(':');
  return cut(colon == std::string_view::npos ? name : name.substr(colon + 1), kNameBytes);
}

/// The collectives of one group, the first that is not complete first.
struct Calls {
  std::uint64_t last = 0;
  std::map<std::uint64_t, FlightCall> open{};

  void add(FlightCall call) {
    last = std::max(last, call.sequence);
    if (call.state == "completed") return;
    open.emplace(call.sequence, std::move(call));
    if (open.size() > kFlightCallsMax) open.erase(std::prev(open.end()));
  }
};

std::map<std::string, Calls, std::less<>> calls_of(const Pickle& pickle, const std::function<bool()>& go_on) {
  constexpr std::size_t kAskEach = 256;
  std::size_t count = 0;
  std::map<std::string, Calls, std::less<>> groups;
  for (const Value entry : pickle.items(pickle.at(pickle.root(), "entries"))) {
    if (++count % kAskEach == 0 && go_on && !go_on())
      throw std::invalid_argument("a flight record: reading it takes too long");
    const std::vector<Value>& group = pickle.items(pickle.at(entry, "process_group"));
    const std::int64_t sequence = pickle.integer(pickle.at(entry, "collective_seq_id"), -1);
    if (group.empty() || sequence < 0 || pickle.integer(pickle.at(entry, "is_p2p")) != 0) continue;
    FlightCall call;
    call.sequence = static_cast<std::uint64_t>(sequence);
    call.name = call_name(pickle.text(pickle.at(entry, "profiling_name")));
    call.inputs = list_text(pickle, pickle.at(entry, "input_sizes"));
    call.outputs = list_text(pickle, pickle.at(entry, "output_sizes"));
    call.types = list_text(pickle, pickle.at(entry, "input_dtypes"));
    call.state = cut(pickle.text(pickle.at(entry, "state")), kNameBytes);
    const std::string name = cut(pickle.text(group.front()), kNameBytes);
    if (groups.size() < kFlightGroupsMax || groups.count(name) > 0) groups[name].add(std::move(call));
  }
  return groups;
}

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
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks, kRangesInText);
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
    {"state ", [](const FlightCall& call) { return call.state; }},
};

/// "rank 3 has input sizes [[4]], ranks 0-2 have [[8]]"; nullopt if all have the same.
std::optional<std::string> difference(const Meeting& meeting, std::uint64_t sequence, const Aspect& aspect) {
  std::map<std::string, std::vector<int>> values;
  for (const auto& [rank, group] : meeting.known)
    if (const FlightCall* call = meeting.call_of(*group, sequence)) values[aspect.of(*call)].push_back(rank);
  if (values.size() < 2) return std::nullopt;
  std::vector<std::pair<std::string, std::vector<int>>> parts(values.begin(), values.end());
  // The few are the ones to look at.
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return joined_by(
      parts,
      [&aspect](const auto& part) {
        const std::string verb = part.second.size() == 1 ? " has " : " have ";
        return ranks_of(part.second) + verb + aspect.what + (part.first.empty() ? "none" : part.first);
      },
      ", ", 4);
}

std::string name_in(const Meeting& meeting, std::uint64_t sequence) {
  for (const auto& [rank, group] : meeting.known)
    if (const FlightCall* call = meeting.call_of(*group, sequence)) return call->name;
  return "call";
}

/// What is said of one group; empty if its ranks match.
std::string judge(const Meeting& meeting) {
  // The first collective that a rank has begun and not completed.
  std::optional<std::uint64_t> first;
  for (const auto& [rank, group] : meeting.known)
    if (!group->calls.empty())
      first = std::min(first.value_or(group->calls.front().sequence), group->calls.front().sequence);
  if (!first) return "";
  std::vector<int> absent;
  std::vector<int> waiting;
  std::set<int> told;
  for (const auto& [rank, group] : meeting.known) {
    told.insert(rank);
    if (group->last < *first) absent.push_back(rank);
    if (meeting.call_of(*group, *first) != nullptr) waiting.push_back(rank);
  }
  std::vector<int> untold;
  for (const int member : meeting.members)
    if (told.count(member) == 0) untold.push_back(member);
  const std::string call =
      name_in(meeting, *first) + " " + std::to_string(*first) + " of group " + meeting.name;
  const std::string wait = ranks_of(waiting) + (waiting.size() == 1 ? " waits" : " wait");
  if (!absent.empty()) return ranks_of(absent) + " never entered " + call + "; " + wait + " in it";
  for (const Aspect& aspect : kAspects)
    if (const auto differ = difference(meeting, *first, aspect)) return call + ": " + *differ;
  if (untold.empty()) return "";
  return wait + " in " + call + "; there is no flight record of " + ranks_of(untold);
}

}  // namespace

FlightRank read_flight_record(std::string_view bytes, int rank, const std::function<bool()>& go_on) {
  const Pickle pickle(bytes, PickleLimits{}, go_on);
  if (!pickle.text(pickle.at(pickle.root(), "version")).starts_with("2."))
    throw std::invalid_argument("a flight record of an unknown version");
  const auto calls = calls_of(pickle, go_on);
  const Value configuration = pickle.at(pickle.root(), "pg_config");
  const std::vector<Value>& groups = pickle.pairs(configuration);
  FlightRank record;
  record.rank = rank;
  for (std::size_t i = 0; i + 1 < groups.size() && record.groups.size() < kFlightGroupsMax; i += 2) {
    FlightGroup group;
    const std::string own_name = cut(pickle.text(groups[i]), kNameBytes);
    const std::string description = cut(pickle.text(pickle.at(groups[i + 1], "desc")), kNameBytes);
    group.name = description.empty() || description == "undefined" ? own_name : description;
    group.ranks = members_of(pickle, pickle.at(groups[i + 1], "ranks"));
    group.id = own_name;
    if (const auto found = calls.find(own_name); found != calls.end()) {
      group.last = found->second.last;
      for (const auto& [sequence, call] : found->second.open) group.calls.push_back(call);
    }
    if (!group.ranks.empty()) record.groups.push_back(std::move(group));
  }
  return record;
}

std::vector<std::string> match_flight_records(const std::vector<FlightRank>& ranks) {
  std::map<std::pair<std::string, std::vector<int>>, Meeting> meetings;
  for (const FlightRank& rank : ranks)
    for (const FlightGroup& group : rank.groups) {
      Meeting& meeting = meetings[{group.id, group.ranks}];
      meeting.name = group.name;
      meeting.members = group.ranks;
      meeting.known.emplace_back(rank.rank, &group);
    }
  std::vector<std::string> lines;
  for (const auto& [key, meeting] : meetings)
    if (std::string line = judge(meeting); !line.empty() && lines.size() < kFlightLinesMax)
      lines.push_back(std::move(line));
  return lines;
}

}  // namespace muster::agent
