// SPDX-License-Identifier: Apache-2.0
// Sums per channel over all pixels of a map of rows x channels: partial sums of each block first, which the
// block that is done last adds up in a fixed order. So the result does not depend on when which block runs.
#pragma once

#include "worker_sdk/nn/gpu/kernels/pack.hpp"

#include <cstddef>
#include <cstdint>

namespace muster::nn::gpu {

/// A map in memory: `rows` pixels of all images of a batch, one after the other, `channels` of each side by
/// side. Channels are a power of two from 8 to 2048 in kernels of maps; sums are also made of other multiples
/// of 64.
struct MapSize {
  std::int64_t rows = 0;
  int channels = 0;

  constexpr std::int64_t packs() const { return rows * channels / kPack; }
};

/// Channels that a block sums: of each pixel it reads what the memory moves at once, 128 bytes of bf16.
constexpr int kSumChannels = 64;
/// Blocks that a map is shared among: two for each of the 132 multiprocessors of an H100 or H200. Other
/// devices get as many, so that bits do not depend on their size.
constexpr int kMaxSumBlocks = 264;
/// Counters of blocks that are done, at the front of the partial sums: one for each group of channels that
/// more than one block shares.
constexpr int kSumCounters = kMaxSumBlocks / 2;

/// How a map is shared out.
struct SumShape {
  int width = 0;   ///< channels of a group
  int groups = 0;  ///< groups of channels
  int blocks = 0;  ///< blocks of each group, which share its rows
};

constexpr SumShape sum_shape(const MapSize& map) {
  const int width = map.channels < kSumChannels ? map.channels : kSumChannels;
  const int groups = map.channels / width;
  const int most = groups < kMaxSumBlocks ? kMaxSumBlocks / groups : 1;
  const std::int64_t rows_of_block = std::int64_t{8} * kBlockThreads * kPack / width;
  const std::int64_t wanted = (map.rows + rows_of_block - 1) / rows_of_block;
  return {width, groups, wanted < 1 ? 1 : wanted > most ? most : static_cast<int>(wanted)};
}

/// Floats that the partial sums of a map take: the counters, which are zero before and after each use, and
/// for each block all first sums, then all second ones.
constexpr std::size_t partial_floats(const MapSize& map) {
  const SumShape shape = sum_shape(map);
  return kSumCounters + std::size_t{2} * static_cast<std::size_t>(map.channels * shape.blocks);
}

/// What a thread sums: its eight channels from `channel` on, in the rows `first`, `first` + `stride`, ...
struct SumPlace {
  std::int64_t first = 0;
  std::int64_t stride = 0;
  int channel = 0;
};

MUSTER_HD SumPlace sum_place(const MapSize& map, const Place& place) {
  const SumShape shape = sum_shape(map);
  const int packs = shape.width / kPack;
  const int lanes = kBlockThreads / packs;
  return {std::int64_t{place.block / shape.groups} * lanes + place.thread / packs,
          std::int64_t{lanes} * shape.blocks,
          place.block % shape.groups * shape.width + place.thread % packs * kPack};
}

/// Calls body.fetch(i) for kAtOnce of the numbers first, first + stride, ... below `end`, then body.add(i,
/// fetched) for each of them, until all are done: so many loads are under way at once. Behind the end one is
/// fetched again, and not added.
template <int kAtOnce, typename Body>
MUSTER_HD void fetch_ahead(std::int64_t first, std::int64_t stride, std::int64_t end, Body& body) {
  for (std::int64_t i = first; i < end; i += kAtOnce * stride) {
    decltype(body.fetch(i)) fetched[static_cast<std::size_t>(kAtOnce)];
    for (int k = 0; k < kAtOnce; ++k) fetched[k] = body.fetch(i + k * stride < end ? i + k * stride : i);
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k * stride < end) body.add(i + k * stride, fetched[k]);
  }
}

/// Rows of a thread that are under way at once: enough for the memory, few enough for the registers.
template <typename T>
constexpr int rows_at_once() {
  return sizeof(T) == sizeof(float) ? 2 : 4;
}

/// One value for each of eight channels and thread; neighbouring threads lie in neighbouring banks.
struct SumScratch {
  float first[kPack][kBlockThreads];
  float second[kPack][kBlockThreads];

  MUSTER_HD void put(int thread, const Floats& one, const Floats& two) {
    for (int i = 0; i < kPack; ++i) {
      first[i][thread] = one.v[i];
      second[i][thread] = two.v[i];
    }
  }
};

/// Four of a group's partial sums for each thread, added up in double.
struct FinishScratch {
  double sums[4][kBlockThreads];
};

struct SumShared {
  union {
    SumScratch own;
    FinishScratch all;
  };

  bool last;
};

/// The tree over the threads of a block that hold the same channels: 256 of them at most.
constexpr int kTreeSteps = 8;
/// The tree over those that hold the same partial sums: 64 of them at most.
constexpr int kFinishSteps = 6;

/// Adds up what thread and thread + half hold, for half = lanes / 2, lanes / 4 ... ; `step` from 1.
MUSTER_HD void tree_step(int step, int packs, const Place& place, SumScratch& shared) {
  const int lanes = kBlockThreads / packs;
  const int half = lanes >> step;
  if (place.thread / packs >= half) return;
  for (int i = 0; i < kPack; ++i) {
    shared.first[i][place.thread] += shared.first[i][place.thread + half * packs];
    shared.second[i][place.thread] += shared.second[i][place.thread + half * packs];
  }
}

/// The partial sums of a group: those of each of its blocks in turn.
MUSTER_HD float* partials_of_group(const SumShape& shape, int group, float* partials) {
  return partials + kSumCounters + std::int64_t{group} * shape.blocks * 2 * shape.width;
}

/// Counts a block in. True for the last of `blocks`: it sees what the others have written before.
MUSTER_HD bool arrives_last(float* counter, int blocks) {
#ifdef __CUDA_ARCH__
  __threadfence();
  const bool last = atomicAdd(counter, 1.0F) == static_cast<float>(blocks - 1);
  __threadfence();
#else
  const bool last = (*counter)++ == static_cast<float>(blocks - 1);
#endif
  if (last) *counter = 0;
  return last;
}

/// Adds up four of the sums of blocks that lie `pitch` floats apart.
struct QuadSum {
  const float* from;
  std::int64_t pitch;
  double sums[4];

  MUSTER_HD Quad fetch(std::int64_t block) const { return fetch_words<Quad>(from + block * pitch); }

  MUSTER_HD void add(std::int64_t, const Quad& quad) {
    for (int i = 0; i < 4; ++i) sums[i] += static_cast<double>(quad.v[i]);
  }
};

/// Part `p` of adding up the partial sums of a group by one block: 0 to kFinishSteps.
MUSTER_HD void finish_step(int p, int thread, const SumShape& shape, const float* partials,
                           FinishScratch& shared) {
  const int columns = shape.width / 2;
  const int lanes = kBlockThreads / columns;
  const int lane = thread / columns;
  if (p == 0) {
    QuadSum sum = {partials + std::int64_t{4} * (thread % columns), std::int64_t{2} * shape.width, {}};
    fetch_ahead<8>(lane, lanes, shape.blocks, sum);
    for (int i = 0; i < 4; ++i) shared.sums[i][thread] = sum.sums[i];
    return;
  }
  const int half = lanes >> p;
  if (lane >= half) return;
  for (int i = 0; i < 4; ++i) shared.sums[i][thread] += shared.sums[i][thread + half * columns];
}

/// After that: hands both sums of each channel of the group to finish(channel, first, second).
template <typename Finish>
MUSTER_HD void hand_over(int thread, const SumShape& shape, int group, const FinishScratch& shared,
                         const Finish& finish) {
  if (thread >= shape.width) return;
  const int second = shape.width + thread;
  finish(group * shape.width + thread, shared.sums[thread % 4][thread / 4],
         shared.sums[second % 4][second / 4]);
}

/// Parts of the body behind the first, in which the threads put their sums.
constexpr int kPartialPhases = kTreeSteps + 1;
constexpr int kFinishPhases = kFinishSteps + 3;

/// Part `p` from 1 of leaving the partial sums of a block.
MUSTER_HD void leave_partials(int p, const Place& place, const MapSize& map, SumShared& shared,
                              float* partials) {
  const SumShape shape = sum_shape(map);
  const int packs = shape.width / kPack;
  if (p <= kTreeSteps) return tree_step(p, packs, place, shared.own);
  if (place.thread >= packs) return;
  float* first = partials_of_group(shape, place.block % shape.groups, partials) +
                 std::int64_t{place.block / shape.groups} * 2 * shape.width + place.thread * kPack;
  for (int i = 0; i < kPack; ++i) {
    first[i] = shared.own.first[i][place.thread];
    first[shape.width + i] = shared.own.second[i][place.thread];
  }
}

/// Part `p` from 0 behind that: the last block of each group adds up and calls `finish`.
template <typename Finish>
MUSTER_HD void finish_last(int p, const Place& place, const MapSize& map, SumShared& shared, float* partials,
                           const Finish& finish) {
  const SumShape shape = sum_shape(map);
  const int group = place.block % shape.groups;
  if (p == 0) {
    if (place.thread == 0) shared.last = arrives_last(partials + group, shape.blocks);
    return;
  }
  if (!shared.last) return;
  if (p <= kFinishSteps + 1)
    return finish_step(p - 1, place.thread, shape, partials_of_group(shape, group, partials), shared.all);
  hand_over(place.thread, shape, group, shared.all, finish);
}

}  // namespace muster::nn::gpu
