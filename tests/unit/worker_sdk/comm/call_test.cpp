// SPDX-License-Identifier: Apache-2.0
// Which arguments of a call are refused, and with which words. Pure.
#include "catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/worker_sdk/comm/thread_world.hpp"

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace muster::call_test {
namespace {

/// The text with which `operation` is refused on rank 1 of 4; "" when it is not.
std::string refusal(const Operation& operation) {
  return test::error_of([&] { check_operation(operation, 1, 4); }, ErrorCode::invalid_argument);
}

TEST_CASE("check_operation names what is wrong") {
  float data[100] = {};
  const Operation good = operation_of(Collective::all_reduce, 10, DataType::f32, data, data);
  CHECK(refusal(good).empty());
  Operation bad = good;
  bad.in = nullptr;
  CHECK(contains(refusal(bad), "all_reduce: the input buffer is null"));
  bad = good;
  bad.out = nullptr;
  CHECK(contains(refusal(bad), "all_reduce: the output buffer is null"));
  bad.call.count = 0;
  CHECK(refusal(bad).empty());
  bad = good;
  bad.call.type = static_cast<DataType>(7);
  CHECK(contains(refusal(bad), "unknown element type"));
  bad = good;
  bad.call.op = static_cast<ReduceOp>(8);
  CHECK(contains(refusal(bad), "unknown operation is not defined for f32"));
  bad.call.op = ReduceOp::bxor;
  CHECK(contains(refusal(bad), "bxor is not defined for f32"));
  bad = good;
  bad.call.count = UINT64_MAX / 8;
  CHECK(contains(refusal(bad), "is too large"));
  bad = good;
  bad.call.collective = Collective::broadcast;
  for (const int root : {-1, 4}) {
    bad.call.root = root;
    CHECK(contains(refusal(bad), "root " + std::to_string(root) + " is outside 0..3"));
  }
  bad.call.collective = Collective::recv;
  bad.call.root = 1;
  CHECK(contains(refusal(bad), "to or receive from itself"));
  for (const auto collective : {Collective::allocate, static_cast<Collective>(99)}) {
    bad.call.collective = collective;
    CHECK(contains(refusal(bad), "unknown collective"));
  }
}

TEST_CASE("counts of all_gather_v are one for each rank, and have buffers") {
  float data[100] = {};
  Operation operation = operation_of(Collective::all_gather_v, 0, DataType::f32, data, data + 50);
  CHECK(contains(refusal(operation), "one count for each of the 4 ranks, not 0"));
  std::vector<std::uint64_t> counts = {1, 2, 3, 4};
  operation.counts = counts.data();
  CHECK(refusal(operation).empty());
  operation.in = nullptr;
  CHECK(contains(refusal(operation), "input buffer is null"));
  counts[1] = 0;
  CHECK(refusal(operation).empty());
  operation.out = nullptr;
  CHECK(contains(refusal(operation), "output buffer is null"));
  counts = {0, 0, UINT64_MAX / 8, UINT64_MAX / 8};
  CHECK(contains(refusal(operation), "too large"));
}

TEST_CASE("buffers are the same, apart, or a rank's own part in its place") {
  float data[100] = {};
  const auto check = [&](Collective collective, const float* in, float* out) {
    return refusal(operation_of(collective, 10, DataType::f32, in, out));
  };
  CHECK(check(Collective::all_reduce, data, data + 10).empty());
  CHECK(contains(check(Collective::all_reduce, data, data + 9), "overlap"));
  CHECK(contains(check(Collective::all_reduce, data + 9, data), "overlap"));
  CHECK(check(Collective::all_gather, data + 10, data).empty());
  CHECK(contains(check(Collective::all_gather, data + 20, data), "overlap"));
  CHECK(check(Collective::all_gather, data + 40, data).empty());
  CHECK(check(Collective::reduce_scatter, data, data + 10).empty());
  CHECK(contains(check(Collective::reduce_scatter, data, data + 30), "overlap"));
  CHECK(check(Collective::all_to_all, data, data).empty());
  CHECK(contains(check(Collective::all_to_all, data, data + 39), "overlap"));
  // What a rank does not give does not matter.
  CHECK(check(Collective::broadcast, data, data + 1).empty());
}

}  // namespace
}  // namespace muster::call_test
