// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: the value at (seed, stream, index) needs no state, so every rank of every
// world size computes the same bits. Philox4x32-10 of Salmon et al., "Parallel Random Numbers: As Easy as 1,
// 2, 3", SC'11. Integer arithmetic only: the same on every machine.
#pragma once

#include <array>
#include <cstdint>

namespace muster {

using PhiloxBlock = std::array<std::uint32_t, 4>;

/// Four random words for one 128-bit counter under one 64-bit key. Any thread.
constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint64_t key) {
  auto low = static_cast<std::uint32_t>(key);
  auto high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ low, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ high, static_cast<std::uint32_t>(a)};
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
  return counter;
}

/// One stream of random words, read in order. Streams of one seed are independent of each other.
class RandomStream {
 public:
  constexpr RandomStream(std::uint64_t seed, std::uint64_t stream)
      : key_(seed),
        counter_{0, 0, static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)} {}

  constexpr std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox4x32(counter_, key_);
      if (++counter_[0] == 0) ++counter_[1];
      used_ = 0;
    }
    return block_[used_++];
  }

  /// A random number, uniform in [0, bound), without bias (Lemire's rejection). `bound` > 0.
  constexpr std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{next()} * bound;
    const std::uint32_t rejected = (0U - bound) % bound;
    while (static_cast<std::uint32_t>(product) < rejected) product = std::uint64_t{next()} * bound;
    return static_cast<std::uint32_t>(product >> 32);
  }

  /// A random number, uniform in [0, 1), a multiple of 2^-24.
  constexpr float unit() { return static_cast<float>(next() >> 8) * 0x1p-24F; }

 private:
  std::uint64_t key_;
  PhiloxBlock counter_;
  PhiloxBlock block_{};
  unsigned used_ = 4;
};

}  // namespace muster
