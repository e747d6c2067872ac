// SPDX-License-Identifier: Apache-2.0
// The C++ layer of networks over libmuster_nn.so, in a world of one; ranks are in tests/consumer.
#include "catch.hpp"
#include "muster/nn.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/folder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace nn = muster::nn;
using muster::ErrorCode;
using muster::test::error_of;

const nn::Fill kNothing = [](const nn::Batch&) {};

/// y = the sum of four numbers.
void fill_sums(const nn::Batch& batch) {
  for (std::size_t i = 0; i < batch.numbers.size(); ++i) {
    for (std::size_t k = 0; k < 4; ++k)
      batch.inputs[4 * i + k] = static_cast<float>(
          std::sin(static_cast<double>(batch.steps * 50 + batch.numbers[i]) + static_cast<double>(2 * k)));
    batch.targets[i] = std::accumulate(&batch.inputs[4 * i], &batch.inputs[4 * i] + 4, 0.0F);
  }
}

nn::Network sums() {
  return {nn::features(4), {nn::linear(16).named("first"), nn::gelu(), nn::linear(1)}, nn::Loss::mse, "sums"};
}

std::string refusal(const nn::Network& network) {
  return error_of([&] { const nn::Learner learner(network, kNothing); }, ErrorCode::invalid_argument);
}

}  // namespace

TEST_CASE("Every layer of the header is one that the library reads") {
  const auto convolution = nn::convolution(16, {.bias = false});
  const nn::Sequential body = {convolution, nn::batch_norm(), nn::relu(), convolution, nn::batch_norm()};
  const nn::Sequential shortcut = {nn::convolution(16, {.kernel = 1, .bias = false}), nn::batch_norm()};
  const nn::Network maps(nn::images(3, 16),
                         {convolution, nn::batch_norm(), nn::relu(), nn::max_pool(3, 2, 1),
                          nn::residual(body, shortcut), nn::relu(), nn::average_pool(), nn::linear(5)});
  const nn::Network pooled(
      nn::images(3, 16), {nn::convolution(16), nn::relu(), nn::max_pool(), nn::flatten(true), nn::linear(5)});
  const nn::Network rows(nn::ids(6), {nn::embedding(9, 16), nn::positions(),
                                      nn::residual({nn::layer_norm(), nn::attention(2), nn::dropout(0.1)}),
                                      nn::token_mean(), nn::linear(5)});
  const nn::Network patches(nn::images(3, 16), {nn::convolution(16, {.kernel = 4, .stride = 4, .padding = 0}),
                                                nn::tokens(), nn::token_mean(), nn::linear(5)});
  const nn::Network grey(nn::images(3, 16), {nn::grey(), nn::linear(5)});
  for (const nn::Network& network : {maps, pooled, rows, patches, grey}) {
    CAPTURE(network.text());
    nn::Learner learner(nn::Network::from_text(network.text()), kNothing);
    CHECK(learner.outputs() == 5);
    CHECK(std::isfinite(learner.step(3, 0.01F).loss));
    CHECK(learner.steps() == 1);
  }
}

TEST_CASE("A network learns, is asked, saved and read again") {
  nn::LearnerOptions options;
  options.optimizer.momentum = 0.9;
  options.max_norm = 5;
  options.batch_size = 16;
  options.accumulation = 2;
  nn::Learner learner(sums(), fill_sums, options);
  CHECK(learner.global_batch() == 32);
  CHECK(learner.parameters() == 4 * 16 + 16 + 16 + 1);
  const double before = learner.evaluate(40).loss;
  for (int step = 0; step < 60; ++step) (void)learner.step(32, 0.05F);
  const nn::Score after = learner.evaluate(40);
  CHECK(after.samples == 40);
  CHECK(after.loss < before / 20);
  const std::vector<std::uint32_t> numbers = {3, 44};
  std::vector<float> inputs(8);
  std::vector<float> targets(2);
  fill_sums({false, 9, numbers, inputs, {}, {}, targets});
  const std::vector<float> outputs = learner.predict(inputs);
  REQUIRE(outputs.size() == 2);
  CHECK(outputs[0] == Approx(targets[0]).margin(0.3));
  CHECK(outputs[1] == Approx(targets[1]).margin(0.3));
  const muster::test::Folder folder;
  learner.save(folder / "all", nn::Saved::everything);
  nn::Learner again(sums(), fill_sums, options);
  CHECK(again.load(folder / "all"));
  CHECK(again.predict(inputs) == outputs);
  CHECK(again.step(32, 0.05F).loss == learner.step(32, 0.05F).loss);
  CHECK(again.check_parameters() == learner.check_parameters());
}

TEST_CASE("What cannot be is one error that says where") {
  CHECK_THAT(refusal({nn::features(4), {nn::Layer("lstm"), nn::linear(2)}}),
             Contains("layer 0") && Contains("lstm") && Contains("choose one of"));
  CHECK_THAT(refusal({nn::features(4), {nn::convolution(16).named("c"), nn::linear(2)}}),
             Contains("layer \"c\" (convolution)") && Contains("needs images or maps"));
  CHECK_THAT(refusal({nn::features(4), {nn::linear(-3), nn::linear(2)}}), Contains("its out is -3"));
  CHECK_THAT(refusal({nn::features(4), {nn::linear(2).with("speed", 3)}}),
             Contains("has no field \"speed\""));
  CHECK_THAT(refusal({nn::features(0), {nn::linear(2)}, nn::Loss::mse, "a\"\\\n"}),
             Contains("\"a\\\"\\\\\\u000a\""));
  CHECK_THAT(refusal(nn::Network::from_text("{")), Contains("is not JSON"));
  nn::LearnerOptions options;
  options.label_smoothing = 0.1;
  CHECK_THAT(
      error_of([&] { const nn::Learner learner(sums(), fill_sums, options); }, ErrorCode::invalid_argument),
      Contains("label_smoothing"));
  nn::Learner learner(sums(), fill_sums);
  CHECK_THAT(error_of([&] { learner.step(65, 0.1F); }, ErrorCode::invalid_argument),
             Contains("can be 1 to 64"));
  CHECK_THAT(error_of([&] { (void)learner.predict(std::vector<float>(7)); }, ErrorCode::invalid_argument),
             Contains("7 values, where each sample has 4"));
  CHECK_THAT(error_of([&] { (void)learner.load("/nowhere/at/all"); }, ErrorCode::io),
             Contains("/nowhere/at/all"));
  CHECK_THAT(error_of(
                 [&] {
                   learner.step(8, 1e30F);
                   learner.step(8, 1e30F);
                   learner.step(8, 1e30F);
                 },
                 ErrorCode::invalid_argument),
             Contains("is no longer a number"));
}

TEST_CASE("What a callback throws comes out of the call, and the learner is done") {
  nn::Learner learner(sums(), [](const nn::Batch& batch) {
    if (batch.steps == 1) throw std::out_of_range("sample 12 is gone");
    fill_sums(batch);
  });
  (void)learner.step(8, 0.1F);
  CHECK_THROWS_AS(learner.step(8, 0.1F), std::out_of_range);
  CHECK_THAT(error_of([&] { learner.step(8, 0.1F); }, ErrorCode::state),
             Contains("the learner failed before"));
}

TEST_CASE("Schedules and orders are functions of their arguments") {
  const nn::Schedule cosine = {
      .kind = nn::ScheduleKind::cosine, .rate = 0.4, .total_steps = 10, .warmup_steps = 2};
  CHECK(cosine.at(0) == 0);
  CHECK(cosine.at(1) == Approx(0.2));
  CHECK(cosine.at(2) == Approx(0.4));
  CHECK(cosine.at(6) == Approx(0.2));
  CHECK_THAT(error_of([] { (void)nn::Schedule{.rate = -1}.at(0); }, ErrorCode::invalid_argument),
             Contains("a rate must be 0 or more"));
  const std::vector<std::uint32_t> order = nn::shuffled(100, 3, 1);
  CHECK(order == nn::shuffled(100, 3, 1));
  CHECK(order != nn::shuffled(100, 3, 2));
  CHECK(std::is_permutation(order.begin(), order.end(), nn::shuffled(100, 4, 0).begin()));
}
