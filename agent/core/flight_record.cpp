// SPDX-License-Identifier: Apache-2.0
#include "agent/core/flight_record.hpp"

#include "agent/core/pickle_reader.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster::agent {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNameBytes = 80;
constexpr std::size_t kSizesBytes = 120;
constexpr int kSizesDepth = 3;
/// The group of all ranks, as PyTorch calls it itself, and for people.
constexpr const char* kDefaultGroup = "0";
constexpr const char* kDefaultDescription = "default_pg";
/// Values after which it is asked whether reading goes on.
constexpr std::size_t kValuesBetweenAsks = 256;

/// A parsed JSON text, to be looked at as a Pickle is.
class JsonRecord {
 public:
  using Value = const Json*;

  explicit JsonRecord(const Json& root) : root_(&root) {}

  Value root() const { return root_; }

  Pickle::Kind kind(Value value) const {
    if (value == nullptr) return Pickle::Kind::none;
    if (value->is_number_integer()) return Pickle::Kind::integer;
    if (value->is_string()) return Pickle::Kind::text;
    return value->is_array() ? Pickle::Kind::list : Pickle::Kind::none;
  }

  std::int64_t integer(Value value, std::int64_t otherwise = 0) const {
    if (value != nullptr && value->is_boolean()) return value->get<bool>() ? 1 : 0;
    return kind(value) == Pickle::Kind::integer ? value->get<std::int64_t>() : otherwise;
  }

  std::string_view text(Value value) const {
    return kind(value) == Pickle::Kind::text ? std::string_view(value->get_ref<const std::string&>())
                                             : std::string_view();
  }

  std::vector<Value> items(Value value) const {
    std::vector<Value> items;
    if (kind(value) == Pickle::Kind::list)
      for (const Json& item : *value) items.push_back(&item);
    return items;
  }

  Value at(Value dict, const char* key) const {
    if (dict == nullptr || !dict->is_object()) return nullptr;
    const auto found = dict->find(key);
    return found == dict->end() ? nullptr : &*found;
  }

  std::size_t size(Value dict) const { return dict != nullptr && dict->is_object() ? dict->size() : 0; }

 private:
  Value root_;
};

std::string cut(std::string_view text, std::size_t most) {
  std::string kept(text.substr(0, most));
  std::replace_if(
      kept.begin(), kept.end(), [](char c) { return c < ' ' || c == '\x7f'; }, '?');
  return kept.size() < text.size() ? kept + "..." : kept;
}

/// Writes lists of numbers and texts as Python prints them.
template <typename Record>
void write(const Record& record, typename Record::Value value, int depth, std::string& text) {
  if (text.size() > kSizesBytes) return;
  if (record.kind(value) == Pickle::Kind::integer) {
    text += std::to_string(record.integer(value));
  } else if (record.kind(value) == Pickle::Kind::text) {
    text += record.text(value);
  } else if (record.kind(value) == Pickle::Kind::list && depth > 0) {
    text += "[";
    const auto& items = record.items(value);
    for (std::size_t i = 0; i < items.size() && text.size() <= kSizesBytes; ++i) {
      if (i > 0) text += ", ";
      write(record, items[i], depth - 1, text);
    }
    text += "]";
  }
}

template <typename Record>
std::string list_text(const Record& record, typename Record::Value value) {
  std::string text;
  write(record, value, kSizesDepth, text);
  return cut(text, kSizesBytes);
}

/// The members in "[0, 1, 2]", as a text or as a list of numbers; none if it is neither, or too long.
template <typename Record>
std::vector<int> members_of(const Record& record, typename Record::Value value) {
  using rendezvous::kFlightMembersMax;
  std::vector<int> ranks;
  const auto& items = record.items(value);
  if (items.size() <= kFlightMembersMax)
    for (const auto item : items) ranks.push_back(static_cast<int>(record.integer(item, -1)));
  std::string_view text = record.text(value);
  while (!text.empty() && ranks.size() <= kFlightMembersMax) {
    const std::size_t begin = std::min(text.find_first_of("0123456789"), text.size());
    const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    if (const auto rank = parse_number<int>(text.substr(begin, end - begin))) ranks.push_back(*rank);
    text.remove_prefix(end);
  }
  const bool believed = std::all_of(ranks.begin(), ranks.end(),
                                    [](int rank) { return rank >= 0 && rank < rendezvous::kMaxWorldSize; });
  if (ranks.size() > kFlightMembersMax || !believed) ranks.clear();
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
  std::string description{};
  std::uint64_t last = 0;
  std::map<std::uint64_t, FlightCall> open{};

  void add(FlightCall call) {
    last = std::max(last, call.sequence);
    if (call.state == "completed") return;
    open.emplace(call.sequence, std::move(call));
    if (open.size() > rendezvous::kFlightCallsMax) open.erase(std::prev(open.end()));
  }
};

/// "completed", "started", "scheduled". Gloo's recorder knows no times, and says of a collective only that it
/// is retired; one of NCCL that is retired and not complete has timed out.
template <typename Record>
std::string state_of(const Record& record, typename Record::Value entry, std::string_view name) {
  const bool retired = record.integer(record.at(entry, "retired")) != 0;
  if (retired && name.starts_with("gloo:")) return "completed";
  return cut(record.text(record.at(entry, "state")), kNameBytes);
}

template <typename Record>
std::map<std::string, Calls, std::less<>> calls_of(const Record& record, const std::function<bool()>& go_on) {
  std::size_t count = 0;
  std::map<std::string, Calls, std::less<>> groups;
  for (const auto entry : record.items(record.at(record.root(), "entries"))) {
    if (++count % kValuesBetweenAsks == 0 && go_on && !go_on())
      throw std::invalid_argument("a flight record: reading it takes too long");
    const auto& group = record.items(record.at(entry, "process_group"));
    const std::int64_t sequence = record.integer(record.at(entry, "collective_seq_id"), -1);
    if (group.empty() || sequence < 0 || record.integer(record.at(entry, "is_p2p")) != 0) continue;
    const std::string_view profiling_name = record.text(record.at(entry, "profiling_name"));
    FlightCall call;
    call.sequence = static_cast<std::uint64_t>(sequence);
    call.name = call_name(profiling_name);
    call.inputs = list_text(record, record.at(entry, "input_sizes"));
    call.outputs = list_text(record, record.at(entry, "output_sizes"));
    call.types = list_text(record, record.at(entry, "input_dtypes"));
    call.state = state_of(record, entry, profiling_name);
    const std::string name = cut(record.text(group.front()), kNameBytes);
    if (groups.size() >= rendezvous::kFlightGroupsMax && groups.count(name) == 0) continue;
    Calls& calls = groups[name];
    calls.add(std::move(call));
    calls.description = group.size() > 1 ? cut(record.text(group[1]), kNameBytes) : "";
  }
  return groups;
}

template <typename Record>
void check_version(const Record& record) {
  if (!record.text(record.at(record.root(), "version")).starts_with("2."))
    throw std::invalid_argument("a flight record of an unknown version");
}

/// The group of these calls, without its members.
FlightGroup group_of(const std::string& name, const std::string& description, const Calls& calls,
                     bool whole) {
  FlightGroup group;
  group.name = description.empty() || description == "undefined" ? name : description;
  group.id = name;
  group.last = calls.last;
  group.whole = whole;
  for (const auto& [sequence, call] : calls.open) group.calls.push_back(call);
  return group;
}

/// Whether the record has all calls since the process has begun: neither were the first overwritten, nor are
/// complete ones left out (TORCH_INCLUDE_ONLY_ACTIVE), nor has the program emptied it. PyTorch counts the
/// calls that it records, and keeps a status of each group that has made one. An empty record counts as
/// whole: a recorder that is turned off is so on all ranks, and then nobody has a call by which another could
/// be judged.
template <typename Record>
bool is_whole(const Record& record) {
  std::int64_t next = 0;
  std::set<std::int64_t> groups;
  for (const auto entry : record.items(record.at(record.root(), "entries"))) {
    if (record.integer(record.at(entry, "record_id"), -1) != next++) return false;
    groups.insert(record.integer(record.at(entry, "pg_id"), -1));
  }
  return record.size(record.at(record.root(), "pg_status")) <= groups.size();
}

}  // namespace

FlightRank read_flight_record(std::string_view bytes, int rank, const std::function<bool()>& go_on) {
  const Pickle record(bytes, PickleLimits{}, go_on);
  check_version(record);
  const auto calls = calls_of(record, go_on);
  const bool whole = is_whole(record);
  FlightRank found;
  found.rank = rank;
  const std::vector<Pickle::Value>& groups = record.pairs(record.at(record.root(), "pg_config"));
  for (std::size_t i = 0; i + 1 < groups.size() && found.groups.size() < rendezvous::kFlightGroupsMax;
       i += 2) {
    const std::string name = cut(record.text(groups[i]), kNameBytes);
    const auto of_group = calls.find(name);
    FlightGroup group = group_of(name, cut(record.text(record.at(groups[i + 1], "desc")), kNameBytes),
                                 of_group == calls.end() ? Calls{} : of_group->second, whole);
    group.ranks = members_of(record, record.at(groups[i + 1], "ranks"));
    if (!group.ranks.empty()) found.groups.push_back(std::move(group));
  }
  return found;
}

FlightRank read_flight_json(std::string_view text, int rank, const std::function<bool()>& go_on) {
  std::size_t values = 0;
  const Json::parser_callback_t bound = [&values, &go_on](int depth, Json::parse_event_t, Json&) {
    if (++values > kFlightJsonValues || depth > kFlightJsonDepth)
      throw std::invalid_argument("a flight record with too many or too deeply nested values");
    if (values % kValuesBetweenAsks == 0 && go_on && !go_on())
      throw std::invalid_argument("a flight record: reading it takes too long");
    return true;
  };
  try {
    const Json root = Json::parse(text, bound);
    const JsonRecord record(root);
    check_version(record);
    FlightRank found;
    found.rank = rank;
    const bool whole = is_whole(record);
    bool in_default = false;
    for (const auto& [name, calls] : calls_of(record, go_on)) {
      found.groups.push_back(group_of(name, calls.description, calls, whole));
      in_default |= name == kDefaultGroup;
    }
    if (!in_default && whole && found.groups.size() < rendezvous::kFlightGroupsMax)
      found.groups.push_back(group_of(kDefaultGroup, kDefaultDescription, Calls{}, whole));
    for (FlightGroup& group : found.groups) group.id = "gloo " + group.id;
    return found;
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("a flight record that is not JSON: ") + error.what());
  }
}

}  // namespace muster::agent
