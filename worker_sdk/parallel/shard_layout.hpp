// SPDX-License-Identifier: Apache-2.0
// Decides which floats belong to which rank if a model is cut into shards. Pure.
#pragma once

#include "worker_sdk/parallel/bucket_layout.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace muster::parallel {

/// The floats [begin, end) of an arena.
struct FloatRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }

  bool operator==(const FloatRange&) const = default;
};

/// The cut of the buckets: each bucket is cut into one part for each rank, in their order, all of the same
/// length. An arena of shards has this rank's parts of all buckets, one behind the other.
struct ShardLayout {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  /// This rank's part of each bucket, in an arena of shards.
  std::vector<FloatRange> parts;
  /// This rank's part of each bucket, in a whole arena.
  std::vector<FloatRange> whole;
  /// The number of floats in an arena of shards.
  std::size_t elements = 0;
};

/// Plans the shards; `layout` must have been planned for the same number of ranks.
ShardLayout plan_shards(const BucketLayout& layout, int rank, int ranks);

/// The part of a range of the whole arena that belongs to this rank, in its arena of shards. Ascending.
std::vector<FloatRange> in_shards(const ShardLayout& shards, const FloatRange& range);

/// The elements of one parameter that belong to this rank.
struct OwnPart {
  std::size_t first = 0;      ///< the number of the first of them in the parameter
  std::size_t elements = 0;   ///< may be none
  std::size_t in_whole = 0;   ///< the place of the first in a whole arena
  std::size_t in_shards = 0;  ///< in an arena of shards
};

OwnPart own_part(const BucketLayout& layout, const ShardLayout& shards, std::size_t parameter,
                 std::size_t elements);

/// The order in which a pass of a network uses its units, as the buckets that hold them: forward through all,
/// then, with `trains`, backward from the last one on. The units of each segment but the last are computed
/// again before backward goes through them. `bucket_of` and `segment_of` are those of each unit; segments
/// ascend.
std::vector<std::size_t> plan_uses(std::span<const std::size_t> bucket_of,
                                   std::span<const std::size_t> segment_of, bool trains);

/// Places in one piece of memory for blocks of which only few are used at a time.
struct Places {
  std::vector<std::size_t> begins;  ///< first float of each block
  std::size_t floats = 0;
};

/// Plans places for blocks that are used one after the other, in their order or against it, beside the next
/// `ahead` of them. The places never change, so calls on them can be recorded. With `ahead` 1 blocks lie at
/// either end in turn, which takes no more memory than the two largest neighbours together.
Places plan_places(std::span<const std::size_t> sizes, std::size_t ahead);

/// Whether two blocks overlap.
bool overlap(const Places& places, std::span<const std::size_t> sizes, std::size_t a, std::size_t b);

/// A part of a NormBlock that the border of a shard has cut, on this rank. Its sum continues the sum of the
/// rank before.
struct CutBlock {
  std::size_t block = 0;   ///< number in BucketLayout::norm_blocks
  std::size_t bucket = 0;  ///< number of its bucket
  FloatRange range;        ///< floats in the arena of shards
  bool goes_on = false;    ///< whether the block began on the rank before
  bool is_last = false;    ///< whether the block ends on this rank
};

struct NormCuts {
  /// The cut blocks of which this rank has a part, bucket by bucket.
  std::vector<CutBlock> own;
  /// The most borders in one block, which is how often sums are handed on. The same on all ranks.
  std::size_t borders = 0;
};

NormCuts plan_norm_cuts(const BucketLayout& layout, const ShardLayout& shards);

}  // namespace muster::parallel
