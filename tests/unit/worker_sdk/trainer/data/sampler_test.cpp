// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/data/sampler.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "rendezvous/base/philox.hpp"

#include <algorithm>
#include <set>

using muster::DistributedSampler;
using muster::Remainder;
using muster::SamplerOptions;

namespace {

SamplerOptions options_for(int rank, int world, Remainder remainder) {
  SamplerOptions options;
  options.rank = rank;
  options.world_size = world;
  options.remainder = remainder;
  options.seed = 5;
  return options;
}

/// Every rank's indices of one epoch, one after the other.
std::vector<std::uint32_t> all_ranks(std::size_t samples, int world, Remainder remainder, int epoch) {
  std::vector<std::uint32_t> all;
  for (int rank = 0; rank < world; ++rank) {
    DistributedSampler sampler(samples, options_for(rank, world, remainder));
    const auto mine = sampler.begin_epoch(epoch);
    CHECK(mine.size() == sampler.size());
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

}  // namespace

TEST_CASE("With keep, every sample is taken exactly once") {
  for (const int world : {1, 2, 3, 8})
    for (const std::size_t samples : {0U, 1U, 7U, 8U, 1000U}) {
      std::vector<std::uint32_t> all = all_ranks(samples, world, Remainder::keep, 3);
      std::sort(all.begin(), all.end());
      REQUIRE(all.size() == samples);
      for (std::size_t i = 0; i < samples; ++i) CHECK(all[i] == i);
    }
}

TEST_CASE("With pad, ranks have equally many and every sample is there") {
  const auto all = all_ranks(10, 4, Remainder::pad, 0);
  CHECK(all.size() == 12);
  CHECK(std::set<std::uint32_t>(all.begin(), all.end()).size() == 10);
  // More ranks than samples: the head is repeated as often as needed.
  CHECK(all_ranks(2, 5, Remainder::pad, 0).size() == 5);
}

TEST_CASE("With drop, ranks have equally many and none twice") {
  const auto all = all_ranks(10, 4, Remainder::drop, 0);
  CHECK(all.size() == 8);
  CHECK(std::set<std::uint32_t>(all.begin(), all.end()).size() == 8);
}

TEST_CASE("The order depends on the epoch and the seed, not on the calls before") {
  DistributedSampler sampler(100, options_for(0, 2, Remainder::keep));
  const auto span = sampler.begin_epoch(1);
  const std::vector<std::uint32_t> first(span.begin(), span.end());
  const auto later = sampler.begin_epoch(2);
  CHECK_FALSE(std::equal(first.begin(), first.end(), later.begin()));
  const auto again = sampler.begin_epoch(1);
  CHECK(std::equal(first.begin(), first.end(), again.begin()));

  SamplerOptions other = options_for(0, 2, Remainder::keep);
  other.seed = 6;
  DistributedSampler other_sampler(100, other);
  const auto other_seed = other_sampler.begin_epoch(1);
  CHECK_FALSE(std::equal(first.begin(), first.end(), other_seed.begin()));
}

TEST_CASE("All world sizes walk through the same permutation") {
  DistributedSampler one(101, options_for(0, 1, Remainder::keep));
  const auto whole = one.begin_epoch(4);
  for (int rank = 0; rank < 3; ++rank) {
    DistributedSampler sampler(101, options_for(rank, 3, Remainder::keep));
    const auto mine = sampler.begin_epoch(4);
    for (std::size_t i = 0; i < mine.size(); ++i)
      CHECK(mine[i] == whole[i * 3 + static_cast<std::size_t>(rank)]);
  }
}

TEST_CASE("Without shuffling the order is the data set's") {
  SamplerOptions options = options_for(1, 2, Remainder::keep);
  options.shuffle = false;
  DistributedSampler sampler(6, options);
  const auto mine = sampler.begin_epoch(9);
  CHECK(std::vector<std::uint32_t>(mine.begin(), mine.end()) == std::vector<std::uint32_t>{1, 3, 5});
}

TEST_CASE(
    "An epoch that is interrupted any number of times, on other worlds, sees each sample exactly once") {
  muster::RandomStream random(11, 3);
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t samples = 1 + random.below(200);
    const int epoch = static_cast<int>(random.below(5));
    std::vector<int> seen(samples);
    std::size_t position = 0;
    while (position < samples) {
      const int world = 1 + static_cast<int>(random.below(9));
      const std::size_t batch = 1 + random.below(12);
      const std::size_t steps = random.below(6);
      for (int rank = 0; rank < world; ++rank) {
        DistributedSampler sampler(samples, options_for(rank, world, Remainder::keep));
        const auto mine = sampler.begin_epoch(epoch, position);
        for (std::size_t i = 0; i < std::min(mine.size(), steps * batch); ++i) ++seen[mine[i]];
      }
      position = std::min(position + steps * batch * static_cast<std::size_t>(world), samples);
    }
    INFO("trial " << trial);
    REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}

TEST_CASE("The rest of an epoch is padded or cut to equal shares") {
  for (const int world : {1, 2, 3, 4}) {
    std::set<std::uint32_t> distinct;
    std::size_t dropped = 0;
    std::size_t padded = 0;
    for (int rank = 0; rank < world; ++rank) {
      DistributedSampler pad(100, options_for(rank, world, Remainder::pad));
      const auto mine = pad.begin_epoch(2, 33);
      CHECK(mine.size() == (67 + static_cast<std::size_t>(world) - 1) / static_cast<std::size_t>(world));
      padded += mine.size();
      distinct.insert(mine.begin(), mine.end());
      DistributedSampler drop(100, options_for(rank, world, Remainder::drop));
      dropped += drop.begin_epoch(2, 33).size();
    }
    const auto parts = static_cast<std::size_t>(world);
    CHECK(padded == (67 + parts - 1) / parts * parts);
    CHECK(dropped == 67 / parts * parts);
    CHECK(distinct.size() >= 67);
  }
}

TEST_CASE("The rest of an epoch can be had whole, in its order") {
  DistributedSampler sampler(50, options_for(1, 3, Remainder::keep));
  sampler.begin_epoch(7);
  const std::vector<std::uint32_t> whole(sampler.order().begin(), sampler.order().end());
  REQUIRE(whole.size() == 50);
  const auto mine = sampler.begin_epoch(7, 12);
  REQUIRE(sampler.order().size() == 38);
  CHECK(std::equal(sampler.order().begin(), sampler.order().end(), whole.begin() + 12));
  CHECK(mine[0] == whole[12 + 1]);
  CHECK(sampler.begin_epoch(7, 50).empty());
}

TEST_CASE("A sampler that cannot be is refused") {
  CHECK_THROWS_AS(DistributedSampler(10, options_for(2, 2, Remainder::keep)), muster::Error);
  CHECK_THROWS_AS(DistributedSampler(10, options_for(0, 0, Remainder::keep)), muster::Error);
  CHECK_THROWS_AS(DistributedSampler(std::size_t{1} << 40, options_for(0, 1, Remainder::keep)),
                  muster::Error);
  DistributedSampler sampler(10, options_for(0, 1, Remainder::keep));
  CHECK_THROWS_AS(sampler.begin_epoch(-1), muster::Error);
  CHECK_THROWS_AS(sampler.begin_epoch(0, 11), muster::Error);
}
