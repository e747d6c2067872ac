// SPDX-License-Identifier: Apache-2.0
#include "agent/core/nccl_ras.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

namespace muster::agent {
namespace {

using Json = nlohmann::json;

/// Names of collectives are a word; anything longer is not one.
constexpr std::size_t kOperationBytes = 40;
/// Digits of a communicator's hash that tell it from the few others of a job.
constexpr std::size_t kHashDigits = 8;

/// A rank of a communicator, with its launches of each kind.
struct Member {
  std::string host{};
  int pid = 0;
  std::map<std::string, std::uint64_t> launched{};
};

/// "ReduceScatter" -> "reduce_scatter"; empty for what is no name.
std::string operation_name(const std::string& name) {
  if (name.empty() || name.size() > kOperationBytes) return {};
  std::string text;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) == 0) return {};
    if (std::isupper(letter) != 0 && !text.empty()) text += '_';
    text += static_cast<char>(std::tolower(letter));
  }
  return text;
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string communicator_name(const Json& communicator) {
  std::string hash = text_of(communicator, "hash");
  if (hash.starts_with("0x")) hash.erase(0, 2);
  hash.resize(std::min(hash.size(), kHashDigits));
  std::erase_if(hash, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) == 0; });
  return "NCCL " + hash;
}

std::optional<Member> member_of(const Json& entry) {
  if (!entry.is_object()) return std::nullopt;
  Member member;
  member.host = text_of(entry, "host");
  const auto pid = entry.find("pid");
  const auto counts = entry.find("collective_counts");
  if (pid == entry.end() || !pid->is_number_integer() || counts == entry.end() || !counts->is_object())
    return std::nullopt;
  member.pid = pid->get<int>();
  for (const auto& [name, count] : counts->items())
    if (count.is_number_unsigned()) member.launched[name] = count.get<std::uint64_t>();
  return member;
}

std::vector<Member> members_of(const Json& communicator) {
  std::vector<Member> members;
  const auto entries = communicator.find("ranks");
  if (entries == communicator.end() || !entries->is_array()) return members;
  for (const Json& entry : *entries)
    if (auto member = member_of(entry)) members.push_back(std::move(*member));
  return members;
}

std::uint64_t all_kinds(const Member& member) {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : member.launched) sum += count;
  return sum;
}

/// The fewest launches of each kind among the members; 0 for one that a member does not list.
std::map<std::string, std::uint64_t> fewest(const std::vector<Member>& members) {
  std::map<std::string, std::uint64_t> least;
  for (const Member& member : members)
    for (const auto& [name, count] : member.launched) least.try_emplace(name, count);
  for (auto& [name, count] : least)
    for (const Member& member : members) {
      const auto launched = member.launched.find(name);
      count = std::min(count, launched == member.launched.end() ? 0 : launched->second);
    }
  return least;
}

/// The name of the collective in which a member is ahead; empty: in none.
std::string ahead_in(const Member& member, const std::map<std::string, std::uint64_t>& least) {
  std::string operation;
  for (const auto& [name, count] : member.launched) {
    const std::string text = operation_name(name);
    if (count <= least.at(name) || text.empty()) continue;
    operation = operation.empty() ? text : "a collective";
  }
  return operation;
}

/// Adds the members of a communicator to the processes of the job.
void add_members(const Json& communicator, bool is_only_one, std::vector<NcclRank>& ranks,
                 std::map<std::pair<std::string, int>, std::size_t>& places) {
  const std::vector<Member> members = members_of(communicator);
  const auto least = fewest(members);
  std::uint64_t by_all = 0;
  for (const Member& member : members) by_all += all_kinds(member);
  for (const Member& member : members) {
    const auto [place, is_new] = places.try_emplace({member.host, member.pid}, ranks.size());
    if (is_new) ranks.push_back({member.host, member.pid, 0, std::nullopt});
    NcclRank& rank = ranks[place->second];
    rank.launched += all_kinds(member);
    const std::string operation = ahead_in(member, least);
    if (operation.empty() || rank.wait) continue;
    rank.wait =
        NcclWait{operation, all_kinds(member), by_all, is_only_one ? "" : communicator_name(communicator)};
  }
}

}  // namespace

std::vector<NcclRank> nccl_ranks(std::string_view answer) {
  std::vector<NcclRank> ranks;
  const std::size_t begin = answer.find('{');
  if (begin == std::string_view::npos) return ranks;
  const Json json = Json::parse(answer.substr(begin), nullptr, false);
  if (!json.is_object()) return ranks;
  const auto communicators = json.find("communicators");
  if (communicators == json.end() || !communicators->is_array()) return ranks;
  std::map<std::pair<std::string, int>, std::size_t> places;
  for (const Json& communicator : *communicators)
    if (communicator.is_object()) add_members(communicator, communicators->size() == 1, ranks, places);
  return ranks;
}

const NcclRank* find_nccl_rank(const std::vector<NcclRank>& ranks, int pid,
                               const std::vector<std::string>& hosts) {
  const auto found = std::find_if(ranks.begin(), ranks.end(), [&](const NcclRank& rank) {
    return rank.pid == pid && std::find(hosts.begin(), hosts.end(), rank.host) != hosts.end();
  });
  return found == ranks.end() ? nullptr : &*found;
}

}  // namespace muster::agent
