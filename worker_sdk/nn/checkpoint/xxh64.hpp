// SPDX-License-Identifier: Apache-2.0
// The hash of checkpoint files: XXH64, after the text of its specification (doc/xxhash_spec.md of
// github.com/Cyan4973/xxHash). It finds torn and rotten files at the speed of memory, has no dependency, and
// `xxhsum -H64` prints the same. It is no protection against a forger; whoever can write into the folder is
// the run's own user.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace muster::checkpoint {

/// Computes the hash of bytes that come in any cut, on little-endian machines.
class Xxh64 {
 public:
  void update(std::span<const std::byte> bytes) {
    total_ += bytes.size();
    while (!bytes.empty()) {
      if (held_ == 0 && bytes.size() >= kStripe) {
        const std::size_t whole = bytes.size() - bytes.size() % kStripe;
        for (std::size_t i = 0; i < whole; i += kStripe) stripe(bytes.data() + i);
        bytes = bytes.subspan(whole);
        continue;
      }
      const std::size_t taken = std::min(kStripe - held_, bytes.size());
      std::memcpy(buffer_.data() + held_, bytes.data(), taken);
      held_ += taken;
      bytes = bytes.subspan(taken);
      if (held_ == kStripe) {
        stripe(buffer_.data());
        held_ = 0;
      }
    }
  }

  std::uint64_t digest() const {
    std::uint64_t hash = total_ >= kStripe ? converge() : kPrime5;
    hash += total_;
    const std::byte* at = buffer_.data();
    std::size_t left = held_;
    for (; left >= 8; left -= 8, at += 8)
      hash = std::rotl(hash ^ round(0, word<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
    if (left >= 4) {
      hash = std::rotl(hash ^ (word<std::uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
      left -= 4;
      at += 4;
    }
    for (; left > 0; --left, ++at)
      hash = std::rotl(hash ^ (std::to_integer<std::uint64_t>(*at) * kPrime5), 11) * kPrime1;
    hash = (hash ^ (hash >> 33)) * kPrime2;
    hash = (hash ^ (hash >> 29)) * kPrime3;
    return hash ^ (hash >> 32);
  }

 private:
  static_assert(std::endian::native == std::endian::little);
  static constexpr std::size_t kStripe = 32;
  static constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87U;
  static constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4FU;
  static constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9U;
  static constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63U;
  static constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5U;

  template <typename Word>
  static std::uint64_t word(const std::byte* from) {
    Word value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  static std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
    return std::rotl(lane + input * kPrime2, 31) * kPrime1;
  }

  void stripe(const std::byte* from) {
    for (std::size_t i = 0; i < 4; ++i) lanes_[i] = round(lanes_[i], word<std::uint64_t>(from + 8 * i));
  }

  std::uint64_t converge() const {
    std::uint64_t hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
                         std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
    return hash;
  }

  std::array<std::uint64_t, 4> lanes_{kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  std::array<std::byte, kStripe> buffer_{};
  std::size_t held_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace muster::checkpoint
