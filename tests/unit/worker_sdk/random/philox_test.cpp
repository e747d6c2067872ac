// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/philox.hpp"

#include "catch.hpp"

#include <array>
#include <cmath>

using muster::philox4x32;
using muster::PhiloxBlock;
using muster::RandomStream;

TEST_CASE("Philox gives the published words") {
  // Known answers of Random123 (kat_vectors, philox4x32 10).
  CHECK(philox4x32({0, 0, 0, 0}, 0) == PhiloxBlock{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8});
  CHECK(philox4x32({~0U, ~0U, ~0U, ~0U}, ~0ULL) ==
        PhiloxBlock{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD});
  CHECK(philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, 0x299F31D0A4093822ULL) ==
        PhiloxBlock{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1});
}

TEST_CASE("Streams of one seed differ, equal ones repeat") {
  RandomStream a(1, 0);
  RandomStream b(1, 0);
  RandomStream other_stream(1, 1);
  RandomStream other_seed(2, 0);
  const std::uint32_t first = a.next();
  CHECK(first == b.next());
  CHECK(first != other_stream.next());
  CHECK(first != other_seed.next());
}

TEST_CASE("Bounded numbers are within bounds and even") {
  RandomStream random(7, 0);
  std::array<int, 10> counts{};
  for (int i = 0; i < 100000; ++i) ++counts.at(random.below(10));
  for (const int count : counts) CHECK(std::abs(count - 10000) < 500);
  for (int i = 0; i < 1000; ++i) {
    const float unit = random.unit();
    CHECK((unit >= 0.0F && unit < 1.0F));
  }
}
