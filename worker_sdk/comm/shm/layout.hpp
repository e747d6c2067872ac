// SPDX-License-Identifier: Apache-2.0
// The layout of the memory that the ranks of a group share. Every member of it is either an atomic of
// sync.hpp or written by one rank and read by the others only after that rank's Progress or Count tells that
// it is written.
#pragma once

#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/shm/memory.hpp"
#include "worker_sdk/comm/shm/sync.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>

namespace muster::shm {

constexpr std::size_t kCacheLine = 64;

/// The size in bytes up to which data travels in the cache line that tells a rank's call.
constexpr std::size_t kInlineBytes = 40;

/// The size in bytes up to which a call takes one step: every rank writes its slot and reads all others'.
/// Larger calls are split and take a second step. With 8 ranks one step of this size reads 256 KiB, which
/// still fits a core's own cache.
constexpr std::size_t kSlotBytes = std::size_t{32} << 10;

/// The size in bytes of the chunks in which private memory is staged: few enough steps that a rank which is
/// late for one costs little, small enough that the staging of all ranks stays in the shared cache. Of 128
/// KiB to 1 MiB, 512 KiB and 1 MiB measured best on a busy machine (44.7 MB, 2 ranks: 18 ms against 24 with
/// 256 KiB and 32 with 128 KiB). A multiple of the cache line.
constexpr std::size_t kChunkBytes = std::size_t{512} << 10;

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// One rank's part of a buffer of `bytes`, which is cut at cache lines; the last parts may be short or empty.
struct Slice {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

constexpr Slice slice_of(std::size_t bytes, int rank, int ranks) {
  const std::size_t part =
      round_up((bytes + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks), kCacheLine);
  const std::size_t begin = std::min(static_cast<std::size_t>(rank) * part, bytes);
  return {begin, std::min(part, bytes - begin)};
}

/// A collective call in the form that the other ranks compare, in 20 bytes with the lower half of the
/// sequence.
using Fingerprint = std::array<std::uint32_t, 5>;

inline Fingerprint fingerprint_of(const Call& call) {
  return {static_cast<std::uint32_t>(call.sequence), static_cast<std::uint32_t>(call.count),
          static_cast<std::uint32_t>(call.count >> 32), static_cast<std::uint32_t>(call.root),
          static_cast<std::uint32_t>(call.collective) | static_cast<std::uint32_t>(call.type) << 8 |
              static_cast<std::uint32_t>(call.op) << 16 | static_cast<std::uint32_t>(call.algorithm) << 24};
}

/// The call of a fingerprint, whose sequence is within 2^31 of `near`.
inline Call call_of(const Fingerprint& print, std::uint64_t near) {
  Call call;
  const auto ahead = static_cast<std::int32_t>(print[0] - static_cast<std::uint32_t>(near));
  call.sequence = near + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
  call.count = print[1] | static_cast<std::uint64_t>(print[2]) << 32;
  call.root = static_cast<std::int32_t>(print[3]);
  call.collective = static_cast<Collective>(print[4] & 0xFF);
  call.type = static_cast<DataType>(print[4] >> 8 & 0xFF);
  call.op = static_cast<ReduceOp>(print[4] >> 16 & 0xFF);
  call.algorithm = static_cast<Algorithm>(print[4] >> 24);
  return call;
}

/// The content of a line for a call whose data do not fit into it: the places of its buffers, which are the
/// same number on every rank for the same place of the same allocate(), and the fields that the fingerprint
/// leaves out.
struct Places {
  static constexpr std::int64_t kPrivate = -1;

  std::int64_t in;
  std::int64_t out;
  std::uint64_t signature;
};

/// One call of one rank, in the only cache line that the other ranks wait for.
struct alignas(kCacheLine) Line {
  Progress progress;
  Fingerprint print = {};

  union {
    std::byte data[kInlineBytes] = {};
    Places places;
  };
};

static_assert(sizeof(Line) == kCacheLine, "a small call is one cache line");

struct alignas(2 * kCacheLine) RankBlock {
  /// The newest two calls of this rank, by parity of the sequence: a rank can be one call ahead of another,
  /// never two.
  Line lines[2];
  alignas(kCacheLine) Sleepers sleepers;
  alignas(kCacheLine) Note completed;  ///< sequence of the last call that the rank completed
  alignas(kCacheLine) Doorbell doorbell;
  alignas(kCacheLine) Identity identity;
};

/// A message that is offered: its call, and where its bytes are.
struct alignas(kCacheLine) Offer {
  /// The place of the message's bytes: in `data`; or at the place in memory of allocate() with which `data`
  /// begins; or in the chunks of the rings.
  enum class Way : std::uint8_t { data, place, chunks };

  std::uint64_t count = 0;
  std::uint32_t id = 0;
  std::int32_t tag = 0;
  std::uint32_t sequence = 0;
  DataType type = DataType::u8;
  Way way = Way::data;
  std::byte data[kInlineBytes] = {};
};

static_assert(sizeof(Offer) == kCacheLine, "a small message is one cache line");

/// Carries messages from one rank to another by three rings: offers and chunks go to the receiver, the ids of
/// accepted offers come back.
struct MessageRings {
  static constexpr std::uint32_t kOffers = 16;
  static constexpr std::uint32_t kChunks = 2;

  struct alignas(kCacheLine) Ends {
    Count offers;
    Count accepted;
    Count chunks;
  };

  Ends sender;    ///< offers and chunks that the sender put in, accepted ids that it took out
  Ends receiver;  ///< offers and chunks that the receiver took out, accepted ids that it put in
  alignas(kCacheLine) std::uint32_t accepted[kOffers] = {};
  Offer offers[kOffers];
};

struct Header {
  alignas(kCacheLine) FailureRecord failure;
  /// The location of new memory, which rank 0 writes during allocate().
  alignas(kCacheLine) MemoryLocation location;
};

/// Finds the parts of a mapping. It is a view that owns nothing.
class Layout {
 public:
  Layout(std::byte* base, int ranks) : base_(base), ranks_(ranks) {}

  static std::size_t bytes_for(int ranks) {
    return kHeaderBytes + static_cast<std::size_t>(ranks) * per_rank_bytes(ranks);
  }

  /// The bytes of one of a message's two chunks: fewer with many ranks, since every pair has its own.
  static std::size_t message_bytes(int ranks) {
    return std::clamp(kChunkBytes / static_cast<std::size_t>(ranks) / 4096 * 4096, std::size_t{4096},
                      std::size_t{128} << 10);
  }

  /// Constructs the parts. Called once, by the maker of the memory, before any other rank sees it; the memory
  /// must be zero.
  void construct() const {
    new (base_) Header;
    for (int rank = 0; rank < ranks_; ++rank) new (rank_address(rank)) RankBlock;
    // Rings begin as zero memory, so they are not written here: rings that are never used must not cost
    // pages.
  }

  Header& header() const { return *std::launder(reinterpret_cast<Header*>(base_)); }

  RankBlock& block(int rank) const { return *std::launder(reinterpret_cast<RankBlock*>(rank_address(rank))); }

  Line& line(int rank, std::uint64_t sequence) const { return block(rank).lines[sequence % 2]; }

  MessageRings& rings(int from, int to) const {
    return *std::launder(reinterpret_cast<MessageRings*>(rings_address(from, to)));
  }

  /// `turn` is the sequence (for slots) or the number of the chunk (otherwise), by which two of each take
  /// turns.
  std::byte* slot(int rank, std::uint64_t turn) const { return data(rank) + turn % 2 * kSlotBytes; }

  std::byte* chunk(int rank, std::uint64_t turn) const {
    return data(rank) + 2 * kSlotBytes + turn % 2 * kChunkBytes;
  }

  std::byte* result(int rank, std::uint64_t turn) const {
    return data(rank) + 2 * kSlotBytes + 2 * kChunkBytes + turn % 2 * result_bytes(ranks_);
  }

  std::byte* message(int from, int to, std::uint32_t turn) const {
    const std::size_t bytes = message_bytes(ranks_);
    return data(from) + 2 * (kSlotBytes + kChunkBytes + result_bytes(ranks_)) +
           (static_cast<std::size_t>(to) * MessageRings::kChunks + turn % MessageRings::kChunks) * bytes;
  }

 private:
  static constexpr std::size_t kHeaderBytes = round_up(sizeof(Header), 4096);

  static std::size_t result_bytes(int ranks) { return slice_of(kChunkBytes, 0, ranks).bytes; }

  static std::size_t control_bytes(int ranks) {
    return round_up(sizeof(RankBlock) + static_cast<std::size_t>(ranks) * sizeof(MessageRings), 4096);
  }

  static std::size_t per_rank_bytes(int ranks) {
    const std::size_t messages =
        static_cast<std::size_t>(ranks) * MessageRings::kChunks * message_bytes(ranks);
    return control_bytes(ranks) +
           round_up(2 * (kSlotBytes + kChunkBytes + result_bytes(ranks)) + messages, 4096);
  }

  std::byte* rank_address(int rank) const {
    return base_ + kHeaderBytes + static_cast<std::size_t>(rank) * per_rank_bytes(ranks_);
  }

  std::byte* rings_address(int from, int to) const {
    return rank_address(from) + sizeof(RankBlock) + static_cast<std::size_t>(to) * sizeof(MessageRings);
  }

  std::byte* data(int rank) const { return rank_address(rank) + control_bytes(ranks_); }

  std::byte* base_;
  int ranks_;
};

}  // namespace muster::shm
