// SPDX-License-Identifier: Apache-2.0
// Turns the key of a message into a tag of MPI. The largest tag depends on the library: the standard promises
// 15 bits, Open MPI has 31 over its own transports and 23 over UCX.
#pragma once

#include "worker_sdk/comm/message/transport.hpp"

#include <bit>
#include <cstdint>

namespace muster::mpi {

/// The tag with which the communicator of a group is made. Threads that make groups at the same time need
/// different tags: `number` counts the groups of the world, and 15 bits are promised.
constexpr int tag_of_group(std::int64_t number) {
  return static_cast<int>(static_cast<std::uint64_t>(number) & 0x7FFF);
}

/// The number of bits for a message's kind, above those of its number.
constexpr int kKindBits = 2;

/// The number of bits for a message's number, where `largest` is the largest tag (MPI_TAG_UB).
constexpr int number_bits(int largest) {
  return 63 - std::countl_zero(static_cast<std::uint64_t>(largest) + 1) - kKindBits;
}

constexpr int tag_of(message::Key key, int bits) {
  return static_cast<int>(static_cast<std::uint64_t>(key.kind) << bits |
                          (key.number & ((std::uint64_t{1} << bits) - 1)));
}

}  // namespace muster::mpi
