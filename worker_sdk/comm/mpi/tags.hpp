// SPDX-License-Identifier: Apache-2.0
// How the key of a message becomes a tag of MPI. How large tags may be is up to the library: the standard
// promises 15 bits, Open MPI has 31 over its own transports and 23 over UCX.
#pragma once

#include "worker_sdk/comm/message/transport.hpp"

#include <bit>
#include <cstdint>

namespace muster::mpi {

/// The tag with which the communicator of a group is made. Threads that make groups at the same time need
/// different ones: `number` counts the groups of the world, and 15 bits are promised.
constexpr int tag_of_group(std::int64_t number) {
  return static_cast<int>(static_cast<std::uint64_t>(number) & 0x7FFF);
}

/// For a message's kind, above its number.
constexpr int kKindBits = 2;

/// Bits of a number, where `largest` is the largest tag (MPI_TAG_UB).
constexpr int number_bits(int largest) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(largest) + 1)) - 1 - kKindBits;
}

constexpr int tag_of(message::Key key, int bits) {
  return static_cast<int>(static_cast<std::uint64_t>(key.kind) << bits |
                          (key.number & ((std::uint64_t{1} << bits) - 1)));
}

}  // namespace muster::mpi
