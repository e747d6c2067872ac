// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/batches/epoch_plan.hpp"

#include "catch.hpp"
#include "rendezvous/base/philox.hpp"
#include "worker_sdk/muster_train/trainer/trainer.hpp"

#include <algorithm>
#include <numeric>
#include <span>

using muster::train::epoch_order;
using muster::train::plan_epoch;
using muster::train::plan_evaluation;
using muster::train::Recipe;
using muster::train::StepShape;

namespace {

using Indices = std::vector<std::uint32_t>;

Indices numbered(std::size_t count) {
  Indices order(count);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

StepShape shape(int rank, int ranks, std::size_t batch, int accumulation = 1) {
  StepShape result;
  result.rank = rank;
  result.ranks = ranks;
  result.batch_size = batch;
  result.accumulation = accumulation;
  return result;
}

}  // namespace

TEST_CASE("An epoch's order is a permutation that depends on seed and epoch alone") {
  Indices order = epoch_order(100, 5, 1);
  CHECK(order == epoch_order(100, 5, 1));
  CHECK(order != epoch_order(100, 5, 2));
  CHECK(order != epoch_order(100, 6, 1));
  std::sort(order.begin(), order.end());
  CHECK(order == numbered(100));
  CHECK(epoch_order(0, 5, 1).empty());
  // Of an earlier version: a run that goes on from its checkpoint goes on in its order.
  CHECK(epoch_order(8, 5, 1) == Indices{2, 7, 6, 0, 1, 3, 5, 4});
}

TEST_CASE("An epoch that is interrupted any number of times, on other worlds, sees each image exactly once") {
  muster::RandomStream random(11, 3);
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t images = 1 + random.below(200);
    const Indices order = epoch_order(images, 7, trial);
    std::vector<int> seen(images);
    for (std::size_t position = 0; position < images;) {
      const int ranks = 1 + static_cast<int>(random.below(9));
      const std::size_t batch = 1 + random.below(12);
      const std::size_t steps = random.below(6);
      const auto left = std::span(order).subspan(position);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto plan = plan_epoch(left, shape(rank, ranks, batch));
        for (std::size_t step = 0; step < std::min(steps, plan.size()); ++step)
          for (const std::uint32_t image : plan[step]) ++seen[image];
      }
      position = std::min(position + steps * batch * static_cast<std::size_t>(ranks), images);
    }
    INFO("trial " << trial);
    REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}

TEST_CASE("A step's images are shared among the ranks, each once, and cut into batches") {
  const Indices order = numbered(50);
  std::vector<Indices> steps(3);
  for (int rank = 0; rank < 2; ++rank) {
    const auto plan = plan_epoch(order, shape(rank, 2, 5, 2));
    REQUIRE(plan.size() == 6);  // 20 + 20 + 10 images, two batches each
    for (std::size_t i = 0; i < plan.size(); ++i) {
      CHECK(plan[i].size() == (i == 5 ? 0 : 5));
      steps[i / 2].insert(steps[i / 2].end(), plan[i].begin(), plan[i].end());
    }
  }
  for (std::size_t step = 0; step < 3; ++step) {
    std::sort(steps[step].begin(), steps[step].end());
    const Indices wanted(
        order.begin() + static_cast<std::ptrdiff_t>(step * 20),
        order.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(50, step * 20 + 20)));
    CHECK(steps[step] == wanted);
  }
}

TEST_CASE("Test images are counted once, in as many batches on every rank") {
  Indices all;
  for (int rank = 0; rank < 3; ++rank) {
    const auto plan = plan_evaluation(31, shape(rank, 3, 5, 4));
    CHECK(plan.size() == 3);
    for (const Indices& batch : plan) all.insert(all.end(), batch.begin(), batch.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(all == numbered(31));
}

TEST_CASE("In a deterministic world a micro-batch does not depend on the number of ranks") {
  const Indices order = numbered(43);
  std::vector<Indices> one;
  std::vector<Indices> two;
  StepShape alone = shape(0, 1, 20);
  alone.fixed = muster::MicroBatches{4, 0, 4};
  one = plan_epoch(order, alone);
  for (std::size_t step = 0; step < 3; ++step)
    for (int rank = 0; rank < 2; ++rank) {
      StepShape half = shape(rank, 2, 10);
      half.fixed = muster::MicroBatches{4, 2 * rank, 2};
      const auto plan = plan_epoch(order, half);
      for (std::size_t k = 0; k < 2; ++k) two.push_back(plan.at(step * 2 + k));
    }
  CHECK(one == two);
}

TEST_CASE("In a deterministic world test images come in batches of a micro-batch, on any number of ranks") {
  for (const int ranks : {1, 2, 4}) {
    Indices all;
    for (int rank = 0; rank < ranks; ++rank) {
      StepShape share = shape(rank, ranks, static_cast<std::size_t>(20 / ranks));
      share.fixed = muster::MicroBatches{8, rank * 8 / ranks, 8 / ranks};
      const auto plan = plan_evaluation(61, share);
      CHECK(plan.size() == static_cast<std::size_t>((61 + 3 * ranks - 1) / (3 * ranks)));
      CHECK(plan.front().size() == 3);  // 20 images in 8 micro-batches: 3 at most
      for (const Indices& batch : plan) {
        CHECK(batch.size() <= 3);
        all.insert(all.end(), batch.begin(), batch.end());
      }
    }
    std::sort(all.begin(), all.end());
    CHECK(all == numbered(61));
  }
}

TEST_CASE("A recipe in epochs becomes a schedule in steps") {
  Recipe recipe;
  recipe.schedule = muster::optim::ScheduleKind::step;
  recipe.rate_per_256 = 0.1;
  recipe.warmup_epochs = 5;
  recipe.step_epochs = 30;
  const auto schedule = make_schedule(recipe, 90, 10, 1024);
  CHECK(schedule.at(0) == Approx(0.1));  // the rate for 256 images
  CHECK(schedule.at(50) == Approx(0.4));
  CHECK(schedule.at(299) == Approx(0.4));
  CHECK(schedule.at(300) == Approx(0.04));
  CHECK(full_rate(recipe, 1024) == Approx(0.4));
}

TEST_CASE("Every number of a recipe reaches its schedule") {
  using muster::optim::ScheduleKind;
  Recipe recipe;
  recipe.rate = 0.5;
  recipe.warmup_epochs = 2;
  CHECK(make_schedule(recipe, 4, 10, 64).at(0) == Approx(0.05));  // a tenth where nothing is scaled
  CHECK(make_schedule(recipe, 4, 10, 64).at(20) == Approx(0.5));
  recipe.warmup_start = 0.4;
  CHECK(make_schedule(recipe, 4, 10, 64).at(0) == Approx(0.2));
  CHECK(make_schedule(recipe, 4, 10, 64).at(10) == Approx(0.35));

  recipe.warmup_epochs = 0;
  recipe.schedule = ScheduleKind::step;
  recipe.step_epochs = 1.5;
  recipe.gamma = 0.5;
  CHECK(make_schedule(recipe, 4, 10, 64).at(14) == Approx(0.5));
  CHECK(make_schedule(recipe, 4, 10, 64).at(15) == Approx(0.25));

  recipe.schedule = ScheduleKind::cosine;
  recipe.minimum = 0.1;
  CHECK(make_schedule(recipe, 4, 10, 64).at(20) == Approx(0.3));

  recipe.schedule = ScheduleKind::one_cycle;
  recipe.peak_share = 0.5;
  CHECK(make_schedule(recipe, 4, 10, 64).at(19) == Approx(0.5));
}
