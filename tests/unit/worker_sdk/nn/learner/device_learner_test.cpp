// SPDX-License-Identifier: Apache-2.0
// Ranks that train on devices of the host's, with sums through its memory.
#include "catch.hpp"
#include "tests/support/shm_ranks.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "worker_sdk/muster_train/data/synthetic.hpp"
#include "worker_sdk/muster_train/trainer/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace device_learner_test {

namespace {

using muster::ProcessGroup;
using muster::nn::gpu::HostOps;
using muster::train::Score;
using muster::train::Trainer;
using muster::train::TrainerOptions;

/// Steps of six images and of one, which leaves a second rank without any.
muster::data::ImageData seven_images() {
  muster::data::SyntheticOptions options;
  options.train_images = 7;
  options.test_images = 3;
  return muster::data::make_synthetic(options);
}

struct Outcome {
  double loss = 0;
  std::map<std::string, std::vector<float>> tensors;
};

Outcome one_epoch(const TrainerOptions& options, ProcessGroup* group) {
  const auto data = seven_images();
  HostOps ops;
  TrainerOptions on_device = options;
  on_device.device = &ops;
  Trainer trainer(data, group, on_device);
  Score score;
  (void)trainer.train_epoch({}, score);
  Outcome outcome = {score.mean_loss, {}};
  for (const auto& tensor : trainer.learner().model_tensors())
    outcome.tensors[tensor.name].assign(tensor.values, tensor.values + tensor.elements);
  return outcome;
}

}  // namespace

TEST_CASE("Batch norm over ranks on devices is that of one rank with all images") {
  TrainerOptions options;
  options.learner.model = "resnet18-imagenet-stem";
  options.recipe.rate = 0.001;
  options.batch_size = 6;
  const Outcome alone = one_epoch(options, nullptr);
  options.batch_size = 3;
  options.learner.sync_batch_norm = true;
  std::vector<Outcome> outcomes(2);
  const auto errors = muster::test::run_shm_ranks(2, [&](ProcessGroup& group) {
    outcomes[static_cast<std::size_t>(group.rank())] = one_epoch(options, &group);
  });
  REQUIRE(errors == std::vector<std::string>(2));
  CHECK(outcomes[0].tensors == outcomes[1].tensors);
  CHECK(outcomes[0].loss == Approx(alone.loss).epsilon(1e-4));
  for (const auto& [name, values] : alone.tensors) {
    // Where all values of a channel are nearly the same, their deviation is noise.
    if (name.find("layer4") != std::string::npos && name.find("running") == std::string::npos) continue;
    double difference = 0;
    double size = 1e-3;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference =
          std::max(difference, std::abs(static_cast<double>(values[i] - outcomes[0].tensors[name][i])));
      size = std::max(size, std::abs(static_cast<double>(values[i])));
    }
    CAPTURE(name);
    CHECK(difference < 2e-3 * size);
  }
}

TEST_CASE(
    "A loss that is no number on one rank's device changes no parameters, and all ranks name the layer") {
  const auto data = seven_images();
  std::vector<std::string> told(2);
  const auto errors = muster::test::run_shm_ranks(2, [&](ProcessGroup& group) {
    HostOps ops;
    TrainerOptions options;
    options.device = &ops;
    options.batch_size = 1;
    options.accumulation = 2;
    if (group.rank() == 1) options.loader.normalization = {{0, 0, 0}, {0, 0, 0}};
    Trainer trainer(data, &group, options);
    const std::uint64_t before = trainer.learner().parameter_hash();
    Score score;
    std::string& text = told[static_cast<std::size_t>(group.rank())];
    try {
      (void)trainer.train_epoch({}, score);
    } catch (const muster::Error& failure) {
      text = failure.what();
    }
    text += trainer.learner().parameter_hash() == before ? " (kept)" : " (changed)";
  });
  CHECK(errors == std::vector<std::string>(2));
  for (const std::string& text : told) {
    CHECK(text.find("step 1: the loss of rank 1 is no longer a number, first in layer conv1;") == 0);
    CHECK(text.find("(kept)") != std::string::npos);
  }
}

TEST_CASE("A layer is named also where batch norm is over all ranks, of which one lacks a micro-batch") {
  const auto data = seven_images();
  const auto errors = muster::test::run_shm_ranks(2, [&](ProcessGroup& group) {
    HostOps ops;
    TrainerOptions options;
    options.device = &ops;
    options.learner.model = "resnet18-imagenet-stem";
    options.learner.sync_batch_norm = true;
    options.batch_size = 1;
    options.accumulation = 4;
    if (group.rank() == 0) options.loader.normalization = {{0, 0, 0}, {0, 0, 0}};
    Trainer trainer(data, &group, options);
    Score score;
    (void)trainer.train_epoch({}, score);
  });
  for (const std::string& error : errors)
    CHECK(error.find("step 1: the loss of rank 0 is no longer a number, first in layer conv1;") == 0);
}

TEST_CASE("Test images whose loss is no number on one rank's device are an error of all ranks") {
  const auto data = seven_images();
  const auto errors = muster::test::run_shm_ranks(2, [&](ProcessGroup& group) {
    HostOps ops;
    TrainerOptions options;
    options.device = &ops;
    options.batch_size = 2;
    if (group.rank() == 1) options.loader.normalization = {{0, 0, 0}, {0, 0, 0}};
    Trainer trainer(data, &group, options);
    Score score;
    (void)trainer.evaluate(score);
  });
  for (const std::string& error : errors)
    CHECK(error.find("step 0: the loss of rank 1 is no longer a number; training diverged") == 0);
}

TEST_CASE("A deterministic world of devices has the same bits for every number of ranks") {
  // Steps of four images and of three: in the second, one micro-batch is empty.
  constexpr int kMicroBatches = 4;
  TrainerOptions options;
  options.learner.model = GENERATE(as<std::string>(), "small-cnn", "resnet18-imagenet-stem");
  CAPTURE(options.learner.model);
  options.learner.optimizer.weight_decay = 0.01;
  options.learner.ema_decay = 0.9;
  options.learner.reducer.max_norm = 0.5;
  options.learner.reducer.deterministic_micro_batches = kMicroBatches;
  options.recipe.rate = 0.001;
  options.loader.augmentation = {4, true, 1};
  options.batch_size = kMicroBatches;
  const Outcome alone = one_epoch(options, nullptr);
  for (const int ranks : {2, 4}) {
    CAPTURE(ranks);
    TrainerOptions shared = options;
    shared.batch_size = static_cast<std::size_t>(kMicroBatches / ranks);
    std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
    const auto errors = muster::test::run_shm_ranks(ranks, [&](ProcessGroup& group) {
      outcomes[static_cast<std::size_t>(group.rank())] = one_epoch(shared, &group);
    });
    REQUIRE(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.tensors == alone.tensors);
      CHECK(outcome.loss == Approx(alone.loss));
    }
  }
}

TEST_CASE("A deterministic world of devices moves running statistics by the mean of its micro-batches") {
  TrainerOptions options;
  options.learner.model = "resnet18-imagenet-stem";
  options.recipe.rate = 0;
  options.batch_size = 7;
  options.learner.reducer.deterministic_micro_batches = 2;
  const Outcome on_device = one_epoch(options, nullptr);
  const auto data = seven_images();
  Trainer trainer(data, nullptr, options);
  Score score;
  (void)trainer.train_epoch({}, score);
  for (const auto& tensor : trainer.learner().model_tensors()) {
    if (tensor.name.find("running_mean") == std::string::npos) continue;
    CAPTURE(tensor.name);
    const std::vector<float>& values = on_device.tensors.at(tensor.name);
    for (std::size_t i = 0; i < values.size(); ++i)
      REQUIRE(static_cast<double>(values[i]) ==
              Approx(static_cast<double>(tensor.values[i])).epsilon(1e-3).margin(1e-5));
  }
}

}  // namespace device_learner_test
