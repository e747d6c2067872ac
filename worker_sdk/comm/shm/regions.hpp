// SPDX-License-Identifier: Apache-2.0
// Keeps the memory of a group's allocate() calls.
#pragma once

#include "worker_sdk/comm/shm/layout.hpp"
#include "worker_sdk/comm/shm/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::shm {

/// The memory of a group's allocate() calls: each call makes a region with a part of the same size for every
/// rank. A place in a region is a number that means the same on all ranks. One thread at a time.
class Regions {
 public:
  explicit Regions(int rank) : rank_(rank) {}

  static std::size_t stride_for(std::size_t bytes);

  /// Takes over memory with stride_for(bytes) bytes for each rank; returns this rank's part, zeroed and
  /// present.
  std::byte* add(Mapping mapping, std::size_t bytes);

  /// The place of [data, data + bytes); Places::kPrivate if it is not completely in this rank's part of one
  /// region.
  std::int64_t place_of(const void* data, std::size_t bytes) const;

  /// The address of a place in the part of `peer`; null when there is no such place.
  std::byte* address_of(int peer, std::int64_t place) const;

  /// Whether `bytes` are more than one region can have.
  static bool is_too_large(std::size_t bytes, int ranks);

 private:
  struct Region {
    Mapping mapping;
    std::size_t stride = 0;
    std::size_t bytes = 0;
  };

  int rank_;
  std::vector<Region> regions_;
};

}  // namespace muster::shm
