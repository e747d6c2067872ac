// SPDX-License-Identifier: Apache-2.0
// Networks with batch norm, trained on several ranks as on one.
#include "catch.hpp"
#include "tests/unit/worker_sdk/trainer/loop/training.hpp"
#include "worker_sdk/parallel/bucket_hook.hpp"

#include <vector>

using muster::test::distance;
using muster::train::TrainerOptions;

namespace {

// Every memory access costs ten times as much under sanitizers, and these networks have many.
#ifdef MUSTER_SANITIZED
constexpr bool kSlow = true;
const std::vector<std::size_t> kCounts = {13};
#else
constexpr bool kSlow = false;
const std::vector<std::size_t> kCounts = {13, 9};
#endif

muster::data::ImageData images(std::size_t count) {
  return muster::test::small_set(count, 1);
}

TrainerOptions resnet(std::size_t batch_size) {
  TrainerOptions options;
  options.batch_size = batch_size;
  options.learner.model = "resnet18-imagenet-stem";
  options.recipe.rate = 0.01;
  return options;
}

/// Parameters and running statistics after one epoch.
std::vector<float> trained(int ranks, const muster::data::ImageData& data, const TrainerOptions& options,
                           const std::function<void(TrainerOptions&)>& adjust = {}) {
  return muster::test::run_world(ranks, data, options, 1, adjust).model;
}

/// Running statistics change whatever the gradients are.
std::vector<float> parameters(std::vector<float> model) {
  model.resize(muster::nn::model_spec(resnet(1).learner.model).parameter_count());
  return model;
}

}  // namespace

TEST_CASE("With batch norm over all ranks, two ranks with uneven and empty batches train as one") {
  // 13 images: steps of 8 and 5, the second one of 3 and 2; then 9: the second one of 1 and 0.
  for (const std::size_t count : kCounts) {
    const auto data = images(count);
    TrainerOptions together = resnet(4);
    const std::vector<float> one = trained(1, data, resnet(8));
    const std::vector<float> apart = trained(2, data, together);
    together.learner.sync_batch_norm = true;
    const double difference = distance(trained(2, data, together), one);
    INFO(count << " images: " << difference << ", each for itself: " << distance(apart, one));
    // Rounding, and nothing else: with statistics of its own on each rank they are far apart.
    CHECK(difference < 2e-5);
    CHECK(distance(apart, one) > 50 * difference);
  }
}

TEST_CASE("A deterministic world of ResNets has the same bits on 1, 2, 4 and 8 ranks") {
  const auto data = images(17);
  const auto on = [&](std::size_t ranks) {
    TrainerOptions options = resnet(16 / ranks);
    options.learner.reducer.deterministic_micro_batches = 8;
    return trained(static_cast<int>(ranks), data, options);
  };
  const std::vector<float> one = on(1);
  CHECK((on(2) == one));
  if (kSlow) return;
  CHECK((on(4) == one));
  CHECK((on(8) == one));
}

TEST_CASE("ResNets train with compressed gradients, the ranks alike") {
  // Batches and a rate at which rounding changes little: with 4 images of a rank and ten times the rate, bf16
  // is as far from the end of the way as the start is.
  const auto data = images(kSlow ? 16 : 32);
  TrainerOptions options = resnet(8);
  options.recipe.rate = 1e-4;
  const std::vector<float> start = parameters(muster::test::run_world(2, data, options, 0).model);
  const std::vector<float> plain = parameters(trained(2, data, options));
  for (const bool low_rank : {false, true}) {
    if (kSlow && low_rank) continue;
    // A hook has state of its rank: each has its own.
    const std::vector<float> model = parameters(trained(2, data, options, [&](TrainerOptions& own) {
      muster::PowerSgdOptions from_start;
      from_start.start_step = 0;
      from_start.rank = 16;
      own.learner.reducer.hook =
          low_rank ? muster::make_power_sgd_hook(from_start) : muster::make_half_hook(muster::DataType::bf16);
    }));
    const double apart = distance(model, plain, start);
    INFO(low_rank << ": " << apart << " of the way from the first parameters");
    CHECK(apart > 0);
    // 0.0039 is found, and 0.66 where the first two steps have no more than 16 columns; without gradients, 1.
    CHECK(apart < (low_rank ? 0.7 : 0.008));
  }
}
