// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/shard_layout.hpp"

#include <algorithm>

namespace muster::parallel {
namespace {

FloatRange range_of(const NormBlock& block) {
  const auto begin = static_cast<std::size_t>(block.offset);
  return {begin, begin + static_cast<std::size_t>(block.count)};
}

}  // namespace

ShardLayout plan_shards(const BucketLayout& layout, int rank, int ranks) {
  ShardLayout shards;
  shards.rank = static_cast<std::size_t>(rank);
  shards.ranks = static_cast<std::size_t>(ranks);
  for (const Bucket& bucket : layout.buckets) {
    const std::size_t part = bucket.elements / shards.ranks;
    const std::size_t begin = bucket.offset + shards.rank * part;
    shards.parts.push_back({shards.elements, shards.elements + part});
    shards.whole.push_back({begin, begin + part});
    shards.elements += part;
  }
  return shards;
}

std::vector<FloatRange> in_shards(const ShardLayout& shards, const FloatRange& range) {
  std::vector<FloatRange> found;
  for (std::size_t b = 0; b < shards.whole.size(); ++b) {
    const FloatRange& whole = shards.whole[b];
    const std::size_t begin = std::max(range.begin, whole.begin);
    const std::size_t end = std::min(range.end, whole.end);
    if (begin >= end) continue;
    const std::size_t first = shards.parts[b].begin + (begin - whole.begin);
    found.push_back({first, first + (end - begin)});
  }
  return found;
}

OwnPart own_part(const BucketLayout& layout, const ShardLayout& shards, std::size_t parameter,
                 std::size_t elements) {
  const std::size_t bucket = layout.bucket_of[parameter];
  const FloatRange& mine = shards.whole[bucket];
  const std::size_t offset = layout.offsets[parameter];
  const std::size_t begin = std::clamp(mine.begin, offset, offset + elements);
  const std::size_t end = std::clamp(mine.end, begin, offset + elements);
  if (begin == end) return {0, 0, offset, shards.parts[bucket].begin};
  return {begin - offset, end - begin, begin, shards.parts[bucket].begin + (begin - mine.begin)};
}

Places plan_places(std::span<const std::size_t> sizes, std::size_t ahead) {
  Places places;
  places.begins.resize(sizes.size());
  if (ahead == 1) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      places.floats = std::max(places.floats, sizes[i] + (i + 1 < sizes.size() ? sizes[i + 1] : 0));
    for (std::size_t i = 1; i < sizes.size(); i += 2) places.begins[i] = places.floats - sizes[i];
    return places;
  }
  const std::size_t slots = std::min(ahead + 1, sizes.size());
  for (std::size_t slot = 0; slot < slots; ++slot) {
    std::size_t largest = 0;
    for (std::size_t i = slot; i < sizes.size(); i += slots) {
      places.begins[i] = places.floats;
      largest = std::max(largest, sizes[i]);
    }
    places.floats += largest;
  }
  return places;
}

std::vector<std::size_t> plan_uses(std::span<const std::size_t> bucket_of,
                                   std::span<const std::size_t> segment_of, bool trains) {
  std::vector<std::size_t> uses(bucket_of.begin(), bucket_of.end());
  if (!trains) return uses;
  for (std::size_t end = bucket_of.size(); end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && segment_of[begin - 1] == segment_of[end - 1]) --begin;
    if (segment_of[begin] != segment_of.back())
      uses.insert(uses.end(), bucket_of.begin() + static_cast<std::ptrdiff_t>(begin),
                  bucket_of.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::size_t unit = end; unit-- > begin;) uses.push_back(bucket_of[unit]);
    end = begin;
  }
  return uses;
}

bool overlap(const Places& places, std::span<const std::size_t> sizes, std::size_t a, std::size_t b) {
  return places.begins[a] < places.begins[b] + sizes[b] && places.begins[b] < places.begins[a] + sizes[a];
}

NormCuts plan_norm_cuts(const BucketLayout& layout, const ShardLayout& shards) {
  NormCuts cuts;
  for (std::size_t b = 0; b < layout.buckets.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    const FloatRange& mine = shards.whole[b];
    for (std::size_t i = bucket.norm_begin; i < bucket.norm_end; ++i) {
      const FloatRange block = range_of(layout.norm_blocks[i]);
      const std::size_t first_rank = (block.begin - bucket.offset) / mine.size();
      const std::size_t last_rank = (block.end - 1 - bucket.offset) / mine.size();
      cuts.borders = std::max(cuts.borders, last_rank - first_rank);
      if (first_rank == last_rank || shards.rank < first_rank || shards.rank > last_rank) continue;
      const std::size_t begin = std::max(block.begin, mine.begin);
      const std::size_t end = std::min(block.end, mine.end);
      const std::size_t place = shards.parts[b].begin + (begin - mine.begin);
      cuts.own.push_back(
          {i, b, {place, place + (end - begin)}, shards.rank > first_rank, shards.rank == last_rank});
    }
  }
  return cuts;
}

}  // namespace muster::parallel
