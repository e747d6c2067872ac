// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/parallel/parameter_check.hpp"

#include "catch.hpp"
#include "tests/support/thread_group.hpp"

#include <bit>
#include <set>

using muster::ParameterSpec;
using muster::test::run_ranks;
using muster::test::ThreadGroup;

namespace {

const std::vector<ParameterSpec> kModel = {
    {"stem.weight", {30}}, {"head.weight", {7, 5}}, {"head.bias", {7}}};

void flip(float& value, unsigned bit) {
  value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U << bit);
}

/// What each rank gets to read when the ranks in `broken` have one other bit in parameter `parameter`.
std::vector<std::string> check(int ranks, const std::set<int>& broken, std::size_t parameter) {
  return run_ranks(ranks, [&](ThreadGroup& group) {
    std::vector<std::vector<float>> tensors;
    std::vector<const float*> values;
    for (const ParameterSpec& spec : kModel) tensors.emplace_back(spec.elements(), 0.25F);
    if (broken.contains(group.rank())) flip(tensors[parameter].back(), static_cast<unsigned>(group.rank()));
    for (const auto& tensor : tensors) values.push_back(tensor.data());
    muster::require_same_parameters(&group, kModel, values, 40);
  });
}

}  // namespace

TEST_CASE("Every single bit of every value changes the hash") {
  for (const std::size_t count : {1U, 15U, 16U, 17U, 33U}) {
    std::vector<float> values(count, 1.5F);
    std::set<std::uint64_t> hashes = {muster::hash_values(values)};
    for (float& value : values)
      for (unsigned bit = 0; bit < 32; ++bit) {
        flip(value, bit);
        hashes.insert(muster::hash_values(values));
        flip(value, bit);
      }
    CHECK(hashes.size() == 1 + 32 * count);
  }
  CHECK(muster::hash_values(std::vector<float>(3)) != muster::hash_values(std::vector<float>(4)));
}

TEST_CASE("Equal parameters pass and give their hash") {
  CHECK(check(4, {}, 0) == std::vector<std::string>(4));
  const std::vector<float> values(30, 1.0F);
  const float* pointer = values.data();
  const std::vector<ParameterSpec> one = {kModel[0]};
  CHECK(muster::require_same_parameters(nullptr, one, {&pointer, 1}, 0) != 0);
}

TEST_CASE("One flipped bit names step, parameter and rank on all ranks") {
  for (int broken = 0; broken < 3; ++broken)
    check_each_contains(check(3, {broken}, 1), "step 40: parameter head.weight of rank " +
                                                   std::to_string(broken) +
                                                   " differs from that of the other ranks");
  check_each_contains(check(5, {0, 4}, 2), "parameter head.bias of ranks 0, 4 differ from that of the other");
}

TEST_CASE("Without a majority nobody is accused") {
  check_each_contains(check(2, {1}, 0), "ranks 0, 1 differ, and no value has a majority");
  check_each_contains(check(4, {1, 2, 3}, 0), "ranks 0, 1, 2, 3 differ, and no value has a majority");
}
