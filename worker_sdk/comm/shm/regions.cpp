// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/shm/regions.hpp"

#include <sys/mman.h>

#include <utility>

namespace muster::shm {
namespace {

/// The number of bits of an offset. A place is the number of its region above the offset in the region.
constexpr int kOffsetBits = 44;
constexpr std::int64_t kOffsetMask = (std::int64_t{1} << kOffsetBits) - 1;
constexpr std::size_t kPageBytes = 4096;

/// Makes a rank's own pages present and local to it before the first collective needs them. Kernels before
/// Linux 5.14 refuse this; then the pages come one by one.
void populate(std::byte* base, std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  madvise(base, bytes, MADV_POPULATE_WRITE);
#else
  static_cast<void>(base);
  static_cast<void>(bytes);
#endif
}

}  // namespace

std::size_t Regions::stride_for(std::size_t bytes) {
  return round_up(std::max<std::size_t>(bytes, 1), kPageBytes);
}

bool Regions::is_too_large(std::size_t bytes, int ranks) {
  return bytes > static_cast<std::size_t>(kOffsetMask) / static_cast<std::size_t>(ranks) - kPageBytes;
}

std::byte* Regions::add(Mapping mapping, std::size_t bytes) {
  const std::size_t stride = stride_for(bytes);
  std::byte* const own = mapping.base() + static_cast<std::size_t>(rank_) * stride;
  populate(own, stride);
  regions_.push_back({std::move(mapping), stride, bytes});
  return own;
}

std::int64_t Regions::place_of(const void* data, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Region& region = regions_[i];
    const auto begin = reinterpret_cast<std::uintptr_t>(region.mapping.base()) +
                       static_cast<std::size_t>(rank_) * region.stride;
    if (address < begin || address - begin > region.bytes || bytes > region.bytes - (address - begin))
      continue;
    return static_cast<std::int64_t>(i) << kOffsetBits | static_cast<std::int64_t>(address - begin);
  }
  return Places::kPrivate;
}

std::byte* Regions::address_of(int peer, std::int64_t place) const {
  const auto index = static_cast<std::uint64_t>(place) >> kOffsetBits;
  if (index >= regions_.size()) return nullptr;
  const Region& region = regions_[index];
  return region.mapping.base() + static_cast<std::size_t>(peer) * region.stride + (place & kOffsetMask);
}

}  // namespace muster::shm
