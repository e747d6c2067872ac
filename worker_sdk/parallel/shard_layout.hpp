// SPDX-License-Identifier: Apache-2.0
// Which floats belong to which rank where a model is cut into shards. Pure.
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

/// Each bucket is cut into one part for each rank, in their order, all of one length. An arena of shards has
/// this rank's part of each bucket, one behind the other.
struct ShardLayout {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  /// This rank's part of each bucket, in an arena of shards.
  std::vector<FloatRange> parts;
  /// The same in a whole arena.
  std::vector<FloatRange> whole;
  /// Floats of an arena of shards.
  std::size_t elements = 0;
};

/// `layout` was planned for as many ranks.
ShardLayout plan_shards(const BucketLayout& layout, int rank, int ranks);

/// What of a range of the whole arena is this rank's, in its arena of shards. Ascending.
std::vector<FloatRange> in_shards(const ShardLayout& shards, const FloatRange& range);

/// Places in one piece of memory for blocks of which few are there at a time.
struct Places {
  std::vector<std::size_t> begins;  ///< first float of each
  std::size_t floats = 0;
};

/// Places for blocks that are used one after the other, in their order or against it, beside the next `ahead`
/// of them. They never change: calls on them can be recorded. For `ahead` 1 blocks lie at either end in turn,
/// which takes no more than the two largest neighbours together.
Places plan_places(std::span<const std::size_t> sizes, std::size_t ahead);

/// Whether two blocks overlap.
bool overlap(const Places& places, std::span<const std::size_t> sizes, std::size_t a, std::size_t b);

/// A part of a NormBlock that the border of a shard has cut, on this rank. Its sum goes on where that of the
/// rank before has ended.
struct CutBlock {
  std::size_t block = 0;   ///< number in BucketLayout::norm_blocks
  std::size_t bucket = 0;  ///< number of its bucket
  FloatRange range;        ///< in the arena of shards
  bool goes_on = false;    ///< it began on the rank before
  bool is_last = false;    ///< it ends here
};

struct NormCuts {
  /// One for each cut block that this rank has a part of, bucket by bucket.
  std::vector<CutBlock> own;
  /// Most borders in one block: as often sums are handed on. Alike on all ranks.
  std::size_t borders = 0;
};

NormCuts plan_norm_cuts(const BucketLayout& layout, const ShardLayout& shards);

}  // namespace muster::parallel
