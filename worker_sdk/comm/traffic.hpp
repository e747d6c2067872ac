// SPDX-License-Identifier: Apache-2.0
// Counts the data that the calls of a group have moved: the payload, which follows from the calls alone, and
// the bytes sent over connections of the backend, which depend on backend and algorithm.
#pragma once

#include "worker_sdk/comm/call.hpp"

#include <cstdint>
#include <type_traits>

namespace muster {

/// The messages and bytes that one rank has sent so far. Plain numbers, because it is passed to the plug-ins
/// unchanged (plugin/table.hpp).
struct Wire {
  std::uint64_t messages = 0;          ///< messages with data only
  std::uint64_t bytes = 0;             ///< bytes of data
  std::uint64_t control_messages = 0;  ///< messages with fingerprints, and small data beside them
  std::uint64_t control_bytes = 0;     ///< bytes of control messages, without the data

  Wire& operator+=(const Wire& other) {
    messages += other.messages;
    bytes += other.bytes;
    control_messages += other.control_messages;
    control_bytes += other.control_bytes;
    return *this;
  }
};

static_assert(std::is_standard_layout_v<Wire> && sizeof(Wire) == 32);

struct Traffic {
  std::uint64_t payload = 0;  ///< payload in bytes
  Wire wire;                  ///< zero for shared memory, and for NCCL, which does not tell
};

/// `size` times the bytes that `rank` has to send in this call at least (times `size`, so that no division
/// rounds): of n bytes 2 n (size - 1) / size for all_reduce, half of that for a broadcast or reduce as the
/// mean over the ranks, and for the other calls the bytes that go to other ranks.
std::uint64_t payload_times_size(const Operation& operation, int rank, int size);

}  // namespace muster
