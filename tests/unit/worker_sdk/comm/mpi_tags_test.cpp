// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "worker_sdk/comm/mpi/tags.hpp"

#include <climits>
#include <cstdint>
#include <set>

namespace muster::mpi {
namespace {

using message::Key;

TEST_CASE("tags stay below the largest one and differ between kinds") {
  // The standard's promise, UCX, something between powers of two, and Open MPI's own transports.
  const int largest = GENERATE(32'767, (1 << 23) - 1, 100'000, INT_MAX);
  const int bits = number_bits(largest);
  CHECK(bits >= 13);
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{8'191}, UINT64_MAX}) {
    const int control = tag_of({Key::Kind::control, number}, bits);
    const int data = tag_of({Key::Kind::data, number}, bits);
    const int direct = tag_of({Key::Kind::direct, number}, bits);
    CHECK(0 <= control);
    CHECK(control < data);
    CHECK(data < direct);
    CHECK(direct <= largest);
    CHECK(tag_of({Key::Kind::data, 8'191}, bits) != tag_of({Key::Kind::data, 0}, bits));
  }
}

TEST_CASE("groups that are made at the same time have tags of their own, below the promised bound") {
  std::set<int> tags;
  constexpr int kAtOnce = 32'768;
  for (int number = 1; number <= kAtOnce; ++number) tags.insert(tag_of_group(number));
  CHECK(tags.size() == kAtOnce);
  CHECK(*tags.begin() == 0);
  CHECK(*tags.rbegin() == 32'767);
  CHECK(tag_of_group(INT64_MAX) == 32'767);
}

}  // namespace
}  // namespace muster::mpi
