// SPDX-License-Identifier: Apache-2.0
// The suite's own arithmetic, against numbers from the definitions of the formats.
#include "tests/contract/values.hpp"

#include "catch.hpp"

#include <cstring>

namespace muster::contract {
namespace {

TEST_CASE("exact values survive every type, and averages are whole numbers") {
  for (const DataType type : {DataType::f16, DataType::bf16, DataType::f32, DataType::f64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::avg, ReduceOp::max}) {
      const Bytes narrow = exact_reduced({type, op, 8, 3}, 500);
      const Bytes wide = exact_reduced({DataType::f64, op, 8, 3}, 500);
      for (std::size_t i = 0; i < 500; ++i) {
        double expected = 0;
        std::memcpy(&expected, wide.data() + i * 8, 8);
        Bytes one(narrow.begin() + static_cast<std::ptrdiff_t>(i * size_of(type)),
                  narrow.begin() + static_cast<std::ptrdiff_t>((i + 1) * size_of(type)));
        // 256 is the least whole number behind which bf16 leaves one out.
        REQUIRE(expected >= -256);
        REQUIRE(expected <= 256);
        REQUIRE(far_apart(type, one, one) == 0);
      }
    }
  }
}

TEST_CASE("rough sums depend on their order") {
  const Values values{DataType::f32, ReduceOp::sum, 4, 1};
  const Bytes sum = rough_reduced(values, 1000);
  Bytes backwards(sum.size());
  int differences = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    float total = 0;
    for (int rank = 3; rank >= 0; --rank) {
      float value = 0;
      std::memcpy(&value, rough(values, rank, 1000).data() + i * 4, 4);
      total = rank == 3 ? value : total + value;
    }
    differences += std::memcmp(&total, sum.data() + i * 4, 4) != 0 ? 1 : 0;
    std::memcpy(backwards.data() + i * 4, &total, 4);
  }
  CHECK(differences > 50);
  CHECK(far_apart(DataType::f32, backwards, sum) == 0);
}

}  // namespace
}  // namespace muster::contract
