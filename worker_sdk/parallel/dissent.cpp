// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/dissent.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdio>

namespace muster::parallel {
namespace {

/// More ranks than these tell nothing more.
constexpr std::size_t kNamedRanks = 16;

std::string hexadecimal(std::int64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

Dissent find_dissent(std::span<const std::int64_t> values) {
  // Boyer and Moore's vote: the one candidate that can have more than half.
  std::int64_t candidate = 0;
  std::size_t lead = 0;
  for (const std::int64_t value : values) {
    if (lead == 0) candidate = value;
    lead = value == candidate ? lead + 1 : lead - 1;
  }
  Dissent dissent;
  const auto agreeing = static_cast<std::size_t>(std::count(values.begin(), values.end(), candidate));
  dissent.has_majority = 2 * agreeing > values.size();
  for (std::size_t rank = 0; rank < values.size(); ++rank)
    if (!dissent.has_majority || values[rank] != candidate) dissent.ranks.push_back(static_cast<int>(rank));
  return dissent;
}

std::string describe(const Dissent& dissent, std::span<const std::int64_t> values) {
  const std::string names = joined(dissent.ranks, ", ", kNamedRanks);
  std::string hashes;
  const std::size_t count = dissent.ranks.size();
  for (std::size_t i = 0; i < std::min(count, kNamedRanks); ++i) {
    const int rank = dissent.ranks[i];
    hashes += (i == 0 ? "rank " : ", rank ") + std::to_string(rank) + ": " +
              hexadecimal(values[static_cast<std::size_t>(rank)]);
  }
  const bool one = count == 1;
  if (dissent.has_majority)
    return (one ? "rank " : "ranks ") + names + (one ? " differs" : " differ") +
           " from that of the other ranks";
  return "ranks " + names + " differ, and no value has a majority that would tell who is wrong (" + hashes +
         ")";
}

}  // namespace muster::parallel
