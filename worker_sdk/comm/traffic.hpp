// SPDX-License-Identifier: Apache-2.0
// What the calls of a group have moved: the payload, which follows from the calls alone, and what went over
// connections of ours to move it, which depends on backend and algorithm.
#pragma once

#include "worker_sdk/comm/call.hpp"

#include <cstdint>
#include <type_traits>

namespace muster {

/// Sent by one rank so far. Plain numbers: it crosses to the plug-ins as it is (plugin/table.hpp).
struct Wire {
  std::uint64_t messages = 0;          ///< with data alone
  std::uint64_t bytes = 0;             ///< of data
  std::uint64_t control_messages = 0;  ///< with fingerprints, and small data beside them
  std::uint64_t control_bytes = 0;     ///< of those, less the data

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
  std::uint64_t payload = 0;  ///< bytes
  Wire wire;                  ///< zero for shared memory, and for NCCL, which does not tell
};

/// `size` times the bytes that `rank` has to send in this call at least, so that no division rounds: of n
/// bytes 2 n (size - 1) / size for all_reduce, half of that for a broadcast or reduce as the mean over the
/// ranks, and for the others what goes to other ranks.
std::uint64_t payload_times_size(const Operation& operation, int rank, int size);

}  // namespace muster
