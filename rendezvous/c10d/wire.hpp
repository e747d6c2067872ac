// SPDX-License-Identifier: Apache-2.0
// The vocabulary of PyTorch's store protocol. Integers are little-endian; a string is a u64 length and its
// bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace muster::rendezvous::c10d {

/// Empties a string or vector and gives its memory back, which the assignment of an empty one may keep.
template <typename Container>
void release(Container& container) {
  Container().swap(container);
}

// The protocol sends integers in the byte order of the sender's memory, and every platform of PyTorch is
// little-endian.
static_assert(std::endian::native == std::endian::little, "the wire format needs a little-endian host");

/// Operations with their numbers in the modern dialect.
enum class Op : std::uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  get_num_keys = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_len = 16,
  list_keys = 17,
  barrier = 18,
};

inline constexpr std::uint8_t kLastOp = 18;

enum class Dialect : std::uint8_t {
  unknown,  ///< not known yet, because too few bytes were seen
  modern,   ///< the dialect that begins with VALIDATE (torch >= 2.2)
  legacy,   ///< the dialect without a handshake, where SET is 0 (torch 1.13)
};

/// The number that VALIDATE carries.
inline constexpr std::uint32_t kValidateMagic = 0x3C85F7CE;

/// The replies to CHECK.
inline constexpr char kAllPresent = 0;
inline constexpr char kNotAllPresent = 1;
/// The reply to WAIT and BARRIER when they end.
inline constexpr char kStopWaiting = 0;
/// The reply to CANCEL_WAIT.
inline constexpr char kWaitCancelled = 1;

template <typename Integer>
Integer load(const char* bytes) {
  Integer value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <typename Integer>
void append_integer(std::string& out, Integer value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  out.append(bytes, sizeof(value));
}

inline void append_bytes(std::string& out, std::string_view bytes) {
  append_integer<std::uint64_t>(out, bytes.size());
  out.append(bytes);
}

}  // namespace muster::rendezvous::c10d
