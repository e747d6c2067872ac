// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/parameter_check.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace muster {
namespace {

constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U;

/// Mixes a word into a hash. It is bijective in `word`, so two streams that differ in one word get different
/// hashes.
std::uint64_t mixed(std::uint64_t state, std::uint64_t word) {
  const std::uint64_t product = (state ^ word) * kOdd;
  return product ^ product >> 32;
}

/// Gathers one value of every rank, in the order of the ranks.
std::vector<std::int64_t> of_all_ranks(ProcessGroup& group, std::span<const std::uint64_t> mine) {
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> all(ranks * mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i)
    all[i * ranks + static_cast<std::size_t>(group.rank())] = static_cast<std::int64_t>(mine[i]);
  group.all_reduce(all.data(), all.size(), DataType::i64, ReduceOp::sum);
  return all;
}

/// The most ranks that a text names, because more names do not help.
constexpr std::size_t kNamedRanks = 16;

std::string hexadecimal(std::int64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// The ranks that hold a wrong value.
struct Dissent {
  /// The ranks whose value differs from that of most ranks, or all ranks if no value has a majority.
  std::vector<int> ranks;
  bool has_majority = true;
};

/// Finds the ranks that differ in `values`, which has one value of each rank.
Dissent find_dissent(std::span<const std::int64_t> values) {
  // This is Boyer and Moore's vote, which finds the only value that can have more than half.
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

/// The text about the ranks that differ: "rank 3 differs from that of the other ranks", or "ranks 0, 1 differ
/// and none has a majority (rank 0: 00ab..., rank 1: ...)".
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

}  // namespace

std::uint64_t hash_values(std::span<const float> values, std::uint64_t seed) {
  // The hash uses eight streams, so that the processor multiplies without waiting.
  constexpr std::size_t kStreams = 8;
  constexpr std::size_t kBlock = kStreams * sizeof(std::uint64_t);
  std::array<std::uint64_t, kStreams> state;
  for (std::size_t i = 0; i < kStreams; ++i) state[i] = mixed(seed + i, kOdd);
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  std::size_t left = values.size_bytes();
  std::array<std::uint64_t, kStreams> words;
  for (; left >= kBlock; left -= kBlock, bytes += kBlock) {
    std::memcpy(words.data(), bytes, kBlock);
    for (std::size_t i = 0; i < kStreams; ++i) state[i] = mixed(state[i], words[i]);
  }
  words = {};
  if (left > 0) std::memcpy(words.data(), bytes, left);
  std::uint64_t hash = values.size();
  for (std::size_t i = 0; i < kStreams; ++i) hash = mixed(mixed(hash, state[i]), words[i]);
  return mixed(hash, hash >> 32);
}

std::uint64_t require_same_parameters(ProcessGroup* group, std::span<const ParameterSpec> specs,
                                      std::span<const float* const> values, std::int64_t step) {
  std::vector<std::uint64_t> each(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) each[i] = hash_values({values[i], specs[i].elements()}, i);
  return require_same_hashes(group, specs, each, step);
}

std::uint64_t require_same_hashes(ProcessGroup* group, std::span<const ParameterSpec> specs,
                                  std::span<const std::uint64_t> each, std::int64_t step) {
  std::uint64_t whole = 0;
  for (const std::uint64_t hash : each) whole = mixed(whole, hash);
  if (group == nullptr || group->size() == 1) return whole;
  const std::vector<std::int64_t> hashes = of_all_ranks(*group, {&whole, 1});
  if (find_dissent(hashes).ranks.empty()) return whole;

  // All ranks come to this point alike, because each has the hashes of all.
  const std::vector<std::int64_t> parameters = of_all_ranks(*group, each);
  const auto ranks = static_cast<std::size_t>(group->size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::span<const std::int64_t> row(parameters.data() + i * ranks, ranks);
    const Dissent dissent = find_dissent(row);
    if (dissent.ranks.empty()) continue;
    throw Error(ErrorCode::mismatch,
                "step " + std::to_string(step) + ": parameter " + specs[i].name + " of " +
                    describe(dissent, row) +
                    "; a bit was flipped or the ranks went apart: resume from the last checkpoint, and test "
                    "that machine's memory");
  }
  throw Error(ErrorCode::mismatch, "step " + std::to_string(step) + ": the parameters of " +
                                       describe(find_dissent(hashes), hashes));
}

}  // namespace muster
