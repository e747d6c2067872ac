// SPDX-License-Identifier: Apache-2.0
// The common parts of the large calls that go through staging.
#pragma once

#include "worker_sdk/comm/shm/shm_backend.hpp"

#include <cstring>

namespace muster::shm {

inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  // memcpy forbids null pointers even for 0 bytes, and a rank's own part may lie in its place already.
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// The number of bytes that turn `turn` moves of `bytes` bytes, where each turn moves `piece`.
inline std::size_t part_of(std::size_t bytes, std::size_t turn, std::size_t piece) {
  const std::size_t begin = std::min(turn * piece, bytes);
  return std::min(piece, bytes - begin);
}

inline std::size_t turns_of(std::size_t bytes, std::size_t piece) {
  return (bytes + piece - 1) / piece;
}

/// Fills chunk `turn` while the chunk before it is emptied, so that one step per turn is enough. The last
/// chunks are not written again before the next call's first step.
template <typename Fill, typename Drain>
void ShmBackend::pipeline(std::size_t turns, Fill fill, Drain drain) {
  for (std::size_t turn = 0; turn <= turns; ++turn) {
    if (turn < turns) fill(turn);
    if (turn > 0) drain(turn - 1);
    if (turn < turns) step();  // the chunk is full
  }
}

/// The number of bytes of each rank in a chunk that holds data for all ranks; a multiple of the cache line.
inline std::size_t ShmBackend::piece_bytes() const {
  return kChunkBytes / static_cast<std::size_t>(size_) / kCacheLine * kCacheLine;
}

}  // namespace muster::shm
