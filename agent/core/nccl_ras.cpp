// SPDX-License-Identifier: Apache-2.0
#include "agent/core/nccl_ras.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <map>

namespace muster::agent {
namespace {

using Json = nlohmann::json;

/// Names of collectives are a word; anything longer is not one.
constexpr std::size_t kOperationBytes = 40;
/// Digits of a communicator's hash that tell it from the few others of a job.
constexpr std::size_t kHashDigits = 8;

struct Rank {
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

std::optional<Rank> rank_of(const Json& entry) {
  if (!entry.is_object()) return std::nullopt;
  Rank rank;
  rank.host = text_of(entry, "host");
  const auto pid = entry.find("pid");
  const auto counts = entry.find("collective_counts");
  if (pid == entry.end() || !pid->is_number_integer() || counts == entry.end() || !counts->is_object())
    return std::nullopt;
  rank.pid = pid->get<int>();
  for (const auto& [name, count] : counts->items())
    if (count.is_number_unsigned()) rank.launched[name] = count.get<std::uint64_t>();
  return rank;
}

std::vector<Rank> ranks_of(const Json& communicator) {
  std::vector<Rank> ranks;
  const auto entries = communicator.find("ranks");
  if (entries == communicator.end() || !entries->is_array()) return ranks;
  for (const Json& entry : *entries)
    if (auto rank = rank_of(entry)) ranks.push_back(std::move(*rank));
  return ranks;
}

/// The fewest launches of each collective among the ranks; 0 for one that a rank does not list.
std::map<std::string, std::uint64_t> fewest(const std::vector<Rank>& ranks) {
  std::map<std::string, std::uint64_t> least;
  for (const Rank& rank : ranks)
    for (const auto& [name, count] : rank.launched) least.try_emplace(name, count);
  for (auto& [name, count] : least)
    for (const Rank& rank : ranks) {
      const auto launched = rank.launched.find(name);
      count = std::min(count, launched == rank.launched.end() ? 0 : launched->second);
    }
  return least;
}

void add_waits(const Json& communicator, bool is_only_one, std::vector<NcclWait>& waits) {
  const std::vector<Rank> ranks = ranks_of(communicator);
  const auto least = fewest(ranks);
  for (const Rank& rank : ranks)
    for (const auto& [name, count] : rank.launched) {
      const std::string operation = operation_name(name);
      if (count <= least.at(name) || operation.empty()) continue;
      waits.push_back(
          {rank.host, rank.pid, operation, count, is_only_one ? "" : communicator_name(communicator)});
      break;
    }
}

}  // namespace

std::vector<NcclWait> nccl_waits(std::string_view answer) {
  std::vector<NcclWait> waits;
  const std::size_t begin = answer.find('{');
  if (begin == std::string_view::npos) return waits;
  const Json json = Json::parse(answer.substr(begin), nullptr, false);
  if (!json.is_object()) return waits;
  const auto communicators = json.find("communicators");
  if (communicators == json.end() || !communicators->is_array()) return waits;
  for (const Json& communicator : *communicators)
    if (communicator.is_object()) add_waits(communicator, communicators->size() == 1, waits);
  return waits;
}

std::optional<NcclWait> nccl_wait_of(const std::vector<NcclWait>& waits, int pid,
                                     const std::vector<std::string>& hosts) {
  for (const NcclWait& wait : waits)
    if (wait.pid == pid && std::find(hosts.begin(), hosts.end(), wait.host) != hosts.end()) return wait;
  return std::nullopt;
}

}  // namespace muster::agent
