// SPDX-License-Identifier: Apache-2.0
// The layout of a rank's status file. One process writes it, others read it at any time, even after the
// writer's death, so every field is an atomic word. A record that is written repeatedly has a version word
// that is odd during a write; its other words are stored with release and loaded with acquire, which keeps
// them between the two stores of the version without a fence (ThreadSanitizer does not know fences).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace muster::status {

using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free, "words are shared between processes");

/// "MUSTERST" in memory order; the last digit of the version rises when a field moves.
constexpr std::uint64_t kMagic = 0x5453524554'53554DU;
constexpr std::uint64_t kVersion = 1;

/// Groups of one process that can be shown at a time; calls of further ones are only in the ring.
constexpr std::size_t kGroups = 30;
/// Bytes of a group's name that are kept.
constexpr std::size_t kNameBytes = 40;
/// Calls that are remembered.
constexpr std::size_t kRing = 256;

enum class ProcessPhase : std::uint8_t { unclaimed, active, finished };

/// The state of a group. joining: the group is being made. failed: its last call ended with an error.
enum class GroupState : std::uint8_t { none, joining, idle, in_call, failed };

/// The owner of a file. The fields are set once when a process takes the file, except for `owner`,
/// `next_ticket`, `calls_ns` and those of the step. A writer that does not know a field leaves it 0.
struct Identity {
  Word magic;
  Word version;
  Word owner;       ///< pid in the low half, ProcessPhase in the high half
  Word start_time;  ///< start time of that process, in clock ticks since boot
  Word place;       ///< rank in the low half, number of ranks in the high half
  Word round;
  Word step;           ///< step of the program, as it told
  Word next_ticket;    ///< number of calls recorded so far
  Word step_version;   ///< version of the step and the two fields below
  Word step_ns;        ///< when the program told the step; 0: it has told none
  Word step_calls_ns;  ///< calls_ns at that time, with the part of a call that was under way
  Word calls_ns;       ///< time so far during which the process was in any call
  std::array<Word, 20> reserved;
};

/// One group of the process. One thread writes it at a time.
struct GroupRecord {
  Word version;
  Word name_hash;  ///< 0: no group
  Word place;      ///< rank in the group in the low half, its number of ranks in the high half
  Word state;      ///< GroupState in byte 0, minus the error code in byte 1
  Word sequence;   ///< sequence of the call entered last
  Word count;
  Word kind;        ///< Collective, DataType, ReduceOp in bytes 0 to 2
  Word partner;     ///< root in the low half, tag in the high half
  Word entered_ns;  ///< when the call was entered; for calls of few elements the last tick of the clock
  Word changed_ns;  ///< when the state last changed
  Word completed;   ///< sequence of the last completed call
  std::array<Word, kNameBytes / 8> name;
};

/// One remembered call. A writer first takes a ticket, so that writers of several threads do not meet.
struct RingRecord {
  Word ticket;  ///< ticket of the call, from 1; 0 while it is being written
  Word name_hash;
  Word sequence;
  Word count;
  Word kind;  ///< the same as GroupRecord::kind, with CallState in byte 3 and minus the error code in byte 4
  Word partner;
  Word entered_ns;
  Word finished_ns;
};

enum class CallState : std::uint8_t { running, completed, failed };

struct Page {
  Identity identity;
  std::array<GroupRecord, kGroups> groups;
  std::array<RingRecord, kRing> ring;
};

static_assert(sizeof(Identity) == 256 && sizeof(GroupRecord) == 128 && sizeof(RingRecord) == 64);
static_assert(sizeof(Identity) + sizeof(GroupRecord) * kGroups == 4096,
              "what is looked at often is one page");

constexpr std::size_t kFileBytes = sizeof(Page);

constexpr std::uint64_t pack(std::uint32_t low, std::uint32_t high) {
  return low | static_cast<std::uint64_t>(high) << 32;
}

constexpr std::uint32_t low_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word);
}

constexpr std::uint32_t high_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}

constexpr std::uint8_t byte_of(std::uint64_t word, int index) {
  return static_cast<std::uint8_t>(word >> (8 * index));
}

}  // namespace muster::status
