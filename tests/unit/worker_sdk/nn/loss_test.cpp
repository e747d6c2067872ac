// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/loss.hpp"

#include "catch.hpp"
#include "tests/unit/worker_sdk/nn/reference.hpp"
#include "worker_sdk/nn/network.hpp"

#include <cmath>
#include <vector>

using muster::nn::softmax_cross_entropy;

TEST_CASE("Cross-entropy of known logits") {
  const std::vector<float> logits = {0, 0, 0, 0, 2, 0, 0, 0};
  const std::vector<std::uint8_t> labels = {2, 0};
  const auto score = softmax_cross_entropy(logits.data(), labels.data(), 2, 4, nullptr);
  const double second = std::log(std::exp(2.0) + 3) - 2;
  CHECK(score.loss == Approx(std::log(4.0) + second));
  CHECK(score.correct == 1);  // of equal logits the first counts, and it is not label 2
}

TEST_CASE("Large logits do not overflow") {
  const std::vector<float> logits = {1e30F, 0, -1e30F};
  const std::vector<std::uint8_t> labels = {0};
  std::vector<float> gradient(3, 9);
  const auto score = softmax_cross_entropy(logits.data(), labels.data(), 1, 3, gradient.data());
  CHECK(score.loss == 0);
  CHECK(gradient == std::vector<float>{0, 0, 0});
}

TEST_CASE("The gradient is the slope of the summed loss") {
  std::vector<float> logits = muster::test::random_floats(30, 1);
  const std::vector<std::uint8_t> labels = {1, 9, 4};
  std::vector<float> gradient(30);
  softmax_cross_entropy(logits.data(), labels.data(), 3, 10, gradient.data());
  const auto loss = [&] { return softmax_cross_entropy(logits.data(), labels.data(), 3, 10, nullptr).loss; };
  for (std::size_t i = 0; i < logits.size(); ++i)
    CHECK(static_cast<double>(gradient[i]) == Approx(muster::test::slope(logits, i, loss)).margin(1e-5));
}

TEST_CASE("Infinite logits give a loss that is not a number, not a crash") {
  const std::vector<float> logits = {INFINITY, 0};
  const std::vector<std::uint8_t> labels = {1};
  CHECK_FALSE(std::isfinite(softmax_cross_entropy(logits.data(), labels.data(), 1, 2, nullptr).loss));
}

TEST_CASE("Smoothed targets give the loss and the slope of PyTorch's label_smoothing") {
  // torch.nn.functional.cross_entropy([[1, 2, 4]], [0], label_smoothing=0.1)
  std::vector<float> logits = {1, 2, 4};
  const std::vector<std::uint8_t> labels = {0};
  std::vector<float> gradient(3);
  const auto loss = [&] {
    return softmax_cross_entropy(logits.data(), labels.data(), 1, 3, nullptr, 0.1).loss;
  };
  softmax_cross_entropy(logits.data(), labels.data(), 1, 3, gradient.data(), 0.1);
  CHECK(loss() == Approx(3.0365).margin(1e-3));
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(static_cast<double>(gradient[i]) == Approx(muster::test::slope(logits, i, loss)).margin(1e-5));
}

TEST_CASE("The mean squared error of known results, and its slope") {
  std::vector<float> results = {1, 2, 3, -1, 0, 0.5F};
  const std::vector<float> targets = {0, 2, 5, -1, 1, 0.5F};
  std::vector<float> gradient(6);
  const auto loss = [&] {
    return muster::nn::mean_squared_error(results.data(), targets.data(), 2, 3, nullptr).loss;
  };
  const auto score = muster::nn::mean_squared_error(results.data(), targets.data(), 2, 3, gradient.data());
  CHECK(score.loss == Approx(5.0 / 3 + 1.0 / 3));
  CHECK(score.correct == 0);
  for (std::size_t i = 0; i < results.size(); ++i)
    CHECK(static_cast<double>(gradient[i]) == Approx(muster::test::slope(results, i, loss)).margin(1e-5));
}
