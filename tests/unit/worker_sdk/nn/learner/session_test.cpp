// SPDX-License-Identifier: Apache-2.0
// Networks of one's own on samples of one's own, beside the learner of images, the CPU beside a device.
#include "worker_sdk/nn/learner/session.hpp"

#include "catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/shm_ranks.hpp"
#include "tests/unit/worker_sdk/muster_train/training.hpp"
#include "tests/unit/worker_sdk/nn/gpu/host_ops.hpp"
#include "worker_sdk/nn/built_in.hpp"
#include "worker_sdk/nn/loss.hpp"

#include <cmath>
#include <numeric>

namespace {

using muster::ErrorCode;
using muster::ProcessGroup;
using muster::nn::gpu::HostOps;
using muster::test::error_of;
using muster::train::Learner;
using muster::train::Samples;
using muster::train::Session;
using muster::train::SessionOptions;
using muster::train::WantedBatch;

constexpr std::size_t kStep = 16;  // samples of all ranks

SessionOptions options_of(const std::string& network) {
  SessionOptions options;
  options.learner.network =
      std::make_shared<const muster::nn::Description>(muster::nn::description_from(network));
  options.learner.seed = 5;
  options.batch_size = kStep;
  return options;
}

/// Dropout and a residual layer, by the mean squared error.
SessionOptions curve() {
  return options_of(R"({"input": {"kind": "features", "channels": 5}, "loss": "mse", "layers": [
      {"layer": "linear", "out": 32}, {"layer": "relu"}, {"layer": "dropout", "share": 0.25},
      {"layer": "residual", "body": [{"layer": "layer_norm"}, {"layer": "linear", "out": 32}, {"layer": "gelu"}]},
      {"layer": "linear", "out": 3}]})");
}

void fill_curve(const WantedBatch& batch, std::int64_t steps) {
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const auto number = static_cast<double>(steps * 100 + batch.samples[i]);
    for (std::size_t k = 0; k < 5; ++k)
      batch.inputs[5 * i + k] = static_cast<float>(std::sin(number * static_cast<double>(k + 1)));
    for (std::size_t k = 0; k < 3; ++k)
      batch.targets[3 * i + k] = batch.inputs[5 * i + k] * batch.inputs[5 * i + k + 1];
  }
}

/// Two classes of three tokens of twelve.
SessionOptions words() {
  return options_of(R"({"input": {"kind": "ids", "channels": 3}, "layers": [
      {"layer": "embedding", "vocabulary": 12, "out": 16}, {"layer": "attention", "heads": 2},
      {"layer": "token_mean"}, {"layer": "linear", "out": 2}]})");
}

void fill_words(const WantedBatch& batch, std::int64_t steps) {
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const auto number = static_cast<std::int32_t>(steps * 7 + batch.samples[i]);
    for (std::int32_t k = 0; k < 3; ++k)
      batch.ids[3 * i + static_cast<std::size_t>(k)] = (number * (k + 5)) % 12;
    batch.labels[i] = batch.ids[3 * i] < 6 ? 0 : 1;
  }
}

std::vector<float> values_of(Session& session) {
  std::vector<float> values;
  for (const auto& tensor : session.learner().model_tensors())
    values.insert(values.end(), tensor.values, tensor.values + tensor.elements);
  return values;
}

/// Parameters after five steps, of which a device records the second and replays two; the last is smaller.
std::vector<float> trained(const SessionOptions& options, const muster::train::FillStep& fill,
                           ProcessGroup* group = nullptr, HostOps* device = nullptr) {
  Session session(options, fill, group, device);
  for (const std::size_t samples : {kStep, kStep, kStep, kStep, kStep - 3}) (void)session.step(samples, 0.1F);
  return values_of(session);
}

std::vector<float> trained_by(int ranks, const SessionOptions& options, const muster::train::FillStep& fill) {
  std::vector<float> values;
  const auto errors = muster::test::run_shm_ranks(ranks, [&](ProcessGroup& group) {
    auto found = trained(options, fill, &group);
    if (group.rank() == 0) values = std::move(found);
  });
  CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  return values;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

}  // namespace

TEST_CASE("A trainer draws crops and flips for the epoch under way, from its seed") {
  const auto data = muster::test::small_set(kStep, 2);
  muster::train::TrainerOptions options;
  options.batch_size = kStep;
  options.epochs = 3;
  options.recipe.rate = 0.05;
  options.loader.augmentation = {4, true, 9};
  SessionOptions same;
  same.learner = options.learner;
  same.learner.network =
      std::make_shared<const muster::nn::Description>(muster::nn::built_in("small-cnn", 10));
  same.batch_size = kStep;
  HostOps device;
  for (HostOps* on : {static_cast<HostOps*>(nullptr), &device}) {
    // A step of the session is an epoch of the trainer.
    Session session(
        same,
        [&](const WantedBatch& batch, std::int64_t steps) {
          std::vector<std::uint8_t> labels(batch.samples.size());
          gather(data.train, batch.samples, options.loader.normalization, options.loader.augmentation,
                 static_cast<int>(steps), batch.inputs.data(), labels.data());
          std::copy(labels.begin(), labels.end(), batch.labels.begin());
        },
        nullptr, on);
    options.device = on;
    muster::train::Trainer trainer(data, nullptr, options);
    for (int epoch = 0; epoch < options.epochs; ++epoch) {
      CAPTURE(epoch, on == nullptr);
      muster::train::Score score;
      trainer.train_epoch({}, score);
      trainer.next_epoch();
      // The order of the images, and so of the sums, is another one.
      CHECK(session.step(kStep, 0.05F).loss / kStep == Approx(score.mean_loss).epsilon(1e-4));
    }
  }
}

TEST_CASE("A session that is given images trains as the learner of images does, to the bit") {
  const auto data = muster::test::small_set(kStep, 2);
  const muster::data::LoaderOptions loader;
  SessionOptions options;
  options.learner.network =
      std::make_shared<const muster::nn::Description>(muster::nn::built_in("small-cnn", 10));
  options.batch_size = kStep;
  HostOps device;
  for (HostOps* on : {static_cast<HostOps*>(nullptr), &device}) {
    Session session(
        options,
        [&](const WantedBatch& batch, std::int64_t) {
          std::vector<std::uint8_t> labels(batch.samples.size());
          gather(data.train, batch.samples, loader.normalization, {}, 0, batch.inputs.data(), labels.data());
          std::copy(labels.begin(), labels.end(), batch.labels.begin());
        },
        nullptr, on);
    Learner learner({options.learner, loader, kStep, 1}, data, nullptr, on);
    std::vector<std::uint32_t> all(kStep);
    std::iota(all.begin(), all.end(), 0U);
    for (int step = 0; step < 2; ++step) {
      learner.begin_epoch({all}, 0);
      const auto ours = session.step(kStep, 0.05F);
      CHECK(ours.loss == learner.step({1, 0.05F, kStep, {}}).loss);
    }
    CHECK(session.learner().parameter_hash() == learner.parameter_hash());
  }
}

TEST_CASE("Dropout draws by step and sample, whoever computes it: ranks, micro-batches, a device") {
  const std::vector<float> whole = trained(curve(), fill_curve);
  SessionOptions parts = curve();
  parts.batch_size = 4;
  parts.accumulation = 4;
  CHECK(largest_difference(trained(parts, fill_curve), whole) < 2e-6);
  parts.accumulation = 2;
  CHECK(largest_difference(trained_by(2, parts, fill_curve), whole) < 2e-6);
  HostOps device;
  CHECK(largest_difference(trained(curve(), fill_curve, nullptr, &device), whole) < 2e-5);
  SessionOptions fixed = curve();
  fixed.learner.reducer.deterministic_micro_batches = 4;
  const std::vector<float> one = trained(fixed, fill_curve);
  fixed.batch_size = kStep / 2;
  CHECK(trained_by(2, fixed, fill_curve) == one);
  CHECK(largest_difference(one, whole) < 2e-6);
}

TEST_CASE(
    "Steps draw other numbers, and a run that goes on from a file has the bits of one that never stopped") {
  const muster::test::Folder folder;
  SessionOptions options = curve();
  options.learner.optimizer.kind = "adamw";
  options.learner.ema_decay = 0.9;
  const auto same_batch = [](const WantedBatch& batch, std::int64_t) { fill_curve(batch, 0); };
  Session whole(options, fill_curve, nullptr, nullptr);
  Session first(options, fill_curve, nullptr, nullptr);
  for (int step = 0; step < 2; ++step) CHECK(first.step(kStep, 0.01F).loss == whole.step(kStep, 0.01F).loss);
  first.save(folder / "all", true);
  first.save(folder / "model", false);
  Session second(options, fill_curve, nullptr, nullptr);
  REQUIRE(second.load(folder / "all"));
  CHECK(second.learner().steps() == 2);
  for (int step = 0; step < 2; ++step) CHECK(second.step(kStep, 0.01F).loss == whole.step(kStep, 0.01F).loss);
  CHECK(values_of(second) == values_of(whole));
  Session weights(options, fill_curve, nullptr, nullptr);
  CHECK_FALSE(error_of([&] { weights.save(folder / "no/such/folder", true); }, ErrorCode::io).empty());
  CHECK_FALSE(weights.load(folder / "model"));
  CHECK(weights.learner().steps() == 0);
  CHECK_FALSE(error_of([&] { Session(words(), fill_words, nullptr, nullptr).load(folder / "model"); },
                       ErrorCode::invalid_argument)
                  .empty());
  // A rate of 0 leaves the parameters, so that the draws alone differ.
  Session draws(options, same_batch, nullptr, nullptr);
  const double once = draws.step(kStep, 0).loss;
  CHECK(draws.step(kStep, 0).loss != once);
}

TEST_CASE("Tokens train on both, and what is predicted is what is scored") {
  HostOps device;
  SessionOptions options = words();
  options.batch_size = 6;
  options.accumulation = 3;
  std::vector<float> values[2];
  for (HostOps* on : {static_cast<HostOps*>(nullptr), &device}) {
    Session session(options, fill_words, nullptr, on);
    for (int step = 0; step < 3; ++step) (void)session.step(kStep, 0.1F);
    const muster::train::Score score = session.evaluate(kStep);
    std::vector<std::uint32_t> numbers(kStep);
    std::iota(numbers.begin(), numbers.end(), 0U);
    std::vector<std::int32_t> ids(kStep * 3);
    std::vector<std::int32_t> labels(kStep);
    fill_words({false, numbers, {}, ids, labels, {}}, 3);
    std::vector<float> results(kStep * 2);
    session.predict(ids.data(), kStep, results.data());
    const auto wanted = muster::nn::softmax_cross_entropy(results.data(), labels.data(), kStep, 2, nullptr);
    CHECK(score.mean_loss == Approx(wanted.loss / kStep).epsilon(1e-6));
    CHECK(score.accuracy == Approx(static_cast<double>(wanted.correct) / kStep));
    values[on == nullptr ? 0 : 1] = values_of(session);
  }
  CHECK(largest_difference(values[0], values[1]) < 2e-5);
}

TEST_CASE("What a callback must not give is told with the sample, and no step follows") {
  const auto bad = [](std::int32_t id, std::int32_t label) {
    return [=](const WantedBatch& batch, std::int64_t steps) {
      fill_words(batch, steps);
      batch.ids[7] = id;
      batch.labels[4] = label;
    };
  };
  Session tokens(words(), bad(12, 0), nullptr, nullptr);
  CHECK_THAT(
      error_of([&] { tokens.step(kStep, 0.1F); }, ErrorCode::invalid_argument),
      Contains("sample 2 of a batch was given the token 12; the numbers of the vocabulary are 0 to 11"));
  CHECK_THAT(error_of([&] { tokens.step(kStep, 0.1F); }, ErrorCode::state),
             Contains("the learner failed before"));
  Session labels(words(), bad(0, -1), nullptr, nullptr);
  CHECK_THAT(error_of([&] { labels.step(kStep, 0.1F); }, ErrorCode::invalid_argument),
             Contains("sample 4 of a batch was given the label -1"));
  Session sizes(words(), fill_words, nullptr, nullptr);
  CHECK_THAT(error_of([&] { sizes.step(kStep + 1, 0.1F); }, ErrorCode::invalid_argument),
             Contains("a step of 17 samples of all ranks, which can be 1 to 16"));
  (void)sizes.step(1, 0.1F);
}

TEST_CASE("A callback that fails on one rank, and ranks that differ, end all ranks with the reason") {
  const auto fails = [](const WantedBatch& batch, std::int64_t steps) {
    // Rank 1 of 2 has the samples of odd numbers.
    if (steps == 1 && batch.samples[0] == 1) throw muster::Error(ErrorCode::io, "shard 7 is gone");
    fill_curve(batch, steps);
  };
  const auto ended =
      muster::test::run_shm_ranks(2, [&](ProcessGroup& group) { (void)trained(curve(), fails, &group); });
  CHECK(ended[1] == "shard 7 is gone");
  CHECK_THAT(ended[0], Contains("rank 1 failed in step 2: shard 7 is gone"));
  const auto other = muster::test::run_shm_ranks(2, [&](ProcessGroup& group) {
    SessionOptions options = curve();
    options.learner.optimizer.momentum = group.rank() == 0 ? 0.5 : 0.25;
    (void)trained(options, fill_curve, &group);
  });
  for (const std::string& error : other)
    CHECK_THAT(error, Contains("rank 0 has momentum 0.5, rank 1 has momentum 0.25"));
  const auto sizes = muster::test::run_shm_ranks(2, [&](ProcessGroup& group) {
    Session session(curve(), fill_curve, &group, nullptr);
    (void)session.step(group.rank() == 0 ? 16 : 12, 0.1F);
  });
  for (const std::string& error : sizes) CHECK_THAT(error, Contains("steps of different sizes"));
}
