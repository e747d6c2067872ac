// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/row_check.hpp"

#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "tests/unit/worker_sdk/nn/gpu/row_block.hpp"
#include "tests/unit/worker_sdk/nn/model_tensors.hpp"

#include <algorithm>
#include <cstdio>

namespace muster::nn::gpu {
namespace {

template <typename T>
bool check_rows_of(Ops& ops, const test::BlockSize& size, Precision precision) {
  HostOps host;
  test::RowBlock<T> expected(host, size, precision);
  expected.run();
  const auto wanted = expected.results();
  test::RowBlock<T> block(ops, size, precision);
  block.run();
  const auto got = block.results();
  block.run();
  const bool same = block.results() == got;
  // Products are summed in another order, and a sum in bf16 may then be rounded to its other neighbour, once
  // in each of the layers that follow each other.
  const double allowed = precision == Precision::bf16 ? 0.02 : 1e-4;
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) worst = std::max(worst, test::apart(wanted[i], got[i]));
  const bool passed = same && worst < allowed;
  std::printf("rows of %lld, %lld tokens, %s: off by %.1e of their length, %.1e allowed, %s: %s\n",
              static_cast<long long>(size.width), static_cast<long long>(size.tokens),
              precision == Precision::bf16 ? "bf16" : "f32", worst, allowed,
              same ? "same bits twice" : "OTHER BITS THE SECOND TIME", passed ? "ok" : "FAILED");
  return passed;
}

}  // namespace

bool check_rows(Ops& ops) {
  bool passed = true;
  // The second ones are no multiples of what cuDNN and wide accesses want.
  for (const test::BlockSize& size : {test::BlockSize{3, 64, 192, 4}, test::BlockSize{3, 25, 40, 4}}) {
    passed = check_rows_of<float>(ops, size, Precision::f32) && passed;
    passed = check_rows_of<Bf16>(ops, size, Precision::bf16) && passed;
  }
  return passed;
}

}  // namespace muster::nn::gpu
