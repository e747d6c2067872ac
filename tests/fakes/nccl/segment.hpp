// SPDX-License-Identifier: Apache-2.0
// What the processes of one communicator share: a file in FAKE_GPU_DIR, mapped by each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fake {

constexpr int kMaxRanks = 8;
/// Largest input of one rank to one collective.
constexpr std::size_t kAreaBytes = std::size_t{64} << 20;
constexpr std::size_t kChunkBytes = 64 * 1024;

enum class Kind : std::uint32_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter
};

/// What the ranks of a collective must agree on.
struct Descriptor {
  Kind kind;
  std::int32_t type;
  std::int32_t op;
  std::int32_t root;
  std::uint64_t count;
  std::int32_t captured = 0;  ///< comes from a graph

  bool operator==(const Descriptor&) const = default;
};

struct RankBlock {
  std::atomic<std::uint64_t> posted;
  std::atomic<std::uint64_t> finished;
  Descriptor calls[2];
  char gpu[96];
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> finalized;
  /// 1 + the peer of a send that is alone in its NCCL group and waits.
  std::atomic<std::int32_t> lone_send;
};

/// Messages from one rank to another, chunk by chunk.
struct Mailbox {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> read;
  std::uint64_t count;  ///< of the message that the chunk belongs to
  std::int32_t type;
  std::uint32_t bytes;  ///< in the chunk
  std::byte chunk[kChunkBytes];
};

struct Shared {
  RankBlock ranks[kMaxRanks];
  Mailbox mail[kMaxRanks][kMaxRanks];  ///< [from][to]
};

class Segment {
 public:
  /// Made by whoever comes first.
  explicit Segment(const std::string& name);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Shared& shared() const { return *static_cast<Shared*>(memory_); }

  std::byte* area(int rank) const;

 private:
  void* memory_ = nullptr;
};

}  // namespace fake
