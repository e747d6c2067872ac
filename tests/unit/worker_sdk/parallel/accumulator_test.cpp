// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/accumulator.hpp"

#include "catch.hpp"

#include <vector>

using muster::parallel::Accumulator;
using muster::parallel::SumOrder;

namespace {

/// So different in size that the order of the additions shows in the bits.
float part(unsigned k) {
  return 1.0F / static_cast<float>(k * k + 3);
}

float by_tree(unsigned first, unsigned count) {
  return count == 1 ? part(first) : by_tree(first, count / 2) + by_tree(first + count / 2, count / 2);
}

float summed(SumOrder order, unsigned count) {
  muster::parallel::HostMemory memory;
  Accumulator waiting(memory, 3, order, "a sum");
  std::vector<float> gradients(3);
  for (unsigned k = 0; k < count; ++k) {
    gradients.assign(3, part(k));
    if (k + 1 == count) {
      for (std::size_t i = 0; i < 3; ++i) waiting.fold_into(k, &gradients[i], i, 1);
    } else {
      waiting.add(k, gradients.data(), 0, 2);
      waiting.add(k, &gradients[2], 2, 1);
    }
  }
  CHECK(gradients[0] == gradients[2]);
  return gradients[1];
}

}  // namespace

TEST_CASE("Micro-batches are summed by a fixed binary tree") {
  for (const unsigned count : {1U, 2U, 4U, 8U, 16U})
    CHECK(summed(SumOrder::tree, count) == by_tree(0, count));
  // In another order the bits are others, so this test sees an order.
  CHECK(summed(SumOrder::sequence, 8) != by_tree(0, 8));
}

TEST_CASE("Micro-batches are summed one after the other") {
  float sum = part(0);
  for (unsigned k = 1; k < 7; ++k) sum += part(k);
  CHECK(summed(SumOrder::sequence, 7) == sum);
}

TEST_CASE("A step begins with nothing") {
  for (const SumOrder order : {SumOrder::tree, SumOrder::sequence}) {
    muster::parallel::HostMemory memory;
    Accumulator waiting(memory, 1, order, "a sum");
    float value = 5;
    for (unsigned k = 0; k < 3; ++k) waiting.add(k, &value, 0, 1);
    float gradient = 2;
    waiting.fold_into(0, &gradient, 0, 1);
    CHECK(gradient == 2);
    waiting.add(0, &value, 0, 1);
    waiting.fold_into(1, &gradient, 0, 1);
    CHECK(gradient == 7);
  }
}
